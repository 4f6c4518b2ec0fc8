// A core_process without a lane: a child of the test that answers the runner's protocol with a
// function of its own.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/core/core_process.hpp"
#include "env/runner/mapping.hpp"
#include "env/runner/serve.hpp"

namespace quern::test {

/// What a call does with one f32 input and one output of equal length.
using float_kernel = void (*)(std::span<const float> x, std::span<float> y);

/// Runs in the child alone.
class float_runner {
 public:
  float_runner(float_kernel kernel, bool delivers) : kernel_(kernel), delivers_(delivers) {}

  env::runner::reply map(const env::runner::question& asked,
                         const env::runner::map_request& request) {
    if (!files_.map(request, asked.descriptor)) return asked.failed("it cannot be mapped");
    return asked.done(reinterpret_cast<std::uint64_t>(files_.at(request.file, 0)));
  }
  env::runner::reply load(const env::runner::question& asked, const env::runner::load_request&) {
    return asked.done(0);  // no workspace
  }
  env::runner::reply plan(const env::runner::question& asked, const env::runner::call_plan& plan) {
    plan_ = plan;
    return asked.done();
  }
  env::runner::reply run(const env::runner::question& asked,
                         const env::runner::run_request& calls) {
    calls_ = calls;
    if (!delivers_) compute();
    return asked.done();
  }
  env::runner::reply flush(const env::runner::question& asked) {
    if (delivers_) compute();
    return asked.done();
  }

 private:
  std::span<float> tensor(std::size_t t, std::int64_t call) const {
    const auto& place = plan_.tensors[t];
    auto* const first =
        files_.at(place.file, place.offset + static_cast<std::uint64_t>(call) * place.stride);
    return {reinterpret_cast<float*>(first), static_cast<std::size_t>(place.shape[0])};
  }
  void compute() const {
    for (std::int64_t call = calls_.begin; call < calls_.end; ++call)
      kernel_(tensor(0, call), tensor(1, call));
  }

  float_kernel kernel_;
  bool delivers_;
  env::runner::mapped_files files_;
  env::runner::call_plan plan_{};
  env::runner::run_request calls_{};
};

/// `delivers`: outputs are written by `flush`. The child ends with this object.
class forked_process final : public env::core_process {
 public:
  explicit forked_process(float_kernel kernel, bool delivers = false) {
    auto ends = env::runner_link::make_pair().value();
    pid_ = ::fork();
    if (pid_ == 0) {
      ends.first.reset();
      ::_exit(serve(ends.second.get(), kernel, delivers));
    }
    link_ = env::runner_link(std::move(ends.first), pid_);
  }
  ~forked_process() override {
    if (ended_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  forked_process(const forked_process&) = delete;
  forked_process& operator=(const forked_process&) = delete;

  env::runner_link& link() override { return link_; }
  [[nodiscard]] env::layer_set layers() const override { return {}; }

  env::child_end end() override {
    if (ended_) return *ended_;
    int status = 0;
    bool killed = false;
    // As long as one that ends by itself takes to be reaped.
    for (int waited_ms = 0; ::waitpid(pid_, &status, WNOHANG) == 0; ++waited_ms) {
      if (waited_ms == 500) {
        killed = true;
        ::kill(pid_, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ended_.emplace();
    using kind = env::child_end::kind;
    ended_->ending = killed ? kind::killed : WIFEXITED(status) ? kind::exited : kind::signalled;
    ended_->code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    return *ended_;
  }

 private:
  static int serve(int socket, float_kernel kernel, bool delivers) {
    using env::runner::command, env::runner::handled_by;
    static constexpr std::array commands{
        handled_by<command::run, &float_runner::run>(),
        handled_by<command::flush, &float_runner::flush>(),
        handled_by<command::plan, &float_runner::plan>(),
        handled_by<command::map, &float_runner::map>(),
        handled_by<command::load, &float_runner::load>(),
    };
    alignas(64) static std::array<std::byte, env::runner::longest_message(commands)> buffer;
    float_runner runner(kernel, delivers);
    env::runner::command_server server;
    server.handlers = commands;
    server.runner = &runner;
    return env::runner::serve_commands(server, socket, buffer);
  }

  pid_t pid_ = -1;
  env::runner_link link_;
  std::optional<env::child_end> ended_;
};

}  // namespace quern::test
