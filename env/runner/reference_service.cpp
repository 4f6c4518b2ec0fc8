// The evaluator's side of `quern-torch reference`.
#include "env/runner/reference_service.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace quern::env {
namespace {

/// LibTorch on a cold disk, beside busy neighbours.
constexpr int warm_up_limit_ms = 120'000;
constexpr question_limits script_limits{20, 120};
constexpr question_limits run_limits{30, 120};

base::errc code_of(const runner_failure& f) {
  using enum runner_failure::kind;
  if (f.what == refused || f.what == fault) return base::errc::invalid_argument;
  // One that somebody stopped is as good as gone.
  return f.what == timeout && !f.stopped ? base::errc::timeout : base::errc::unavailable;
}

base::error as_error(const runner_failure& f) {
  return {code_of(f), fmt::format("the reference failed: {}", f.text)};
}

/// The tensors as the reference delivers them: floating ones as f64.
std::vector<tensor_layout> widened(std::span<const tensor_layout> tensors) {
  std::vector<tensor_layout> result(tensors.begin(), tensors.end());
  for (auto& t : result)
    if (is_floating(t.type)) {
      t.type = dtype::f64;
      t.bytes = t.elements * 8;
    }
  return result;
}

base::status send_fork(int socket, const runner::fork_request& request, int fd) {
  iovec part{const_cast<runner::fork_request*>(&request), sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  if (sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return {};
  // A broken connection is how its death shows first: the caller starts another one.
  const int number = errno;
  return base::fail(
      number == EPIPE || number == ECONNRESET ? base::errc::unavailable : base::errc::io,
      "asking the reference process for a child: {}", std::strerror(number));
}

bool readable_within(int fd, int ms) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, ms) > 0;
}

}  // namespace

base::expected<std::unique_ptr<reference_service>> reference_service::start(
    const std::filesystem::path& program, sandbox_mode mode) {
  QUERN_TRY(auto ends, runner_link::make_pair());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends.second.get(), runner::socket_fd);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
  std::string path = program.string();
  std::string role = "reference";
  std::array<char*, 3> argv{path.data(), role.data(), nullptr};
  // One thread, whatever the environment says: a process with a thread pool cannot be forked.
  std::array<std::string, 4> settings{"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1",
                                      "PATH=/usr/bin:/bin", "LC_ALL=C"};
  std::array<char*, 5> env{settings[0].data(), settings[1].data(), settings[2].data(),
                           settings[3].data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), env.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return base::fail(
        base::errc::unavailable,
        "cannot start {}: {}; references need it, build with LibTorch (tools/setup.sh)", path,
        std::strerror(error));
  std::unique_ptr<reference_service> service(new reference_service);
  service->pid_ = pid;
  service->control_ = std::move(ends.first);
  service->required_ = mode == sandbox_mode::required;
  ends.second.reset();
  std::array<char, 256> hello{};
  ssize_t got = -1;
  if (readable_within(service->control_.get(), warm_up_limit_ms))
    got = recv(service->control_.get(), hello.data(), hello.size(), 0);
  if (got <= 0)
    return base::fail(base::errc::unavailable,
                      "{} reference did not become ready: run it by hand to see why", path);
  service->version_.assign(hello.data(), static_cast<std::size_t>(got));
  return service;
}

reference_service::~reference_service() {
  control_.reset();  // end of file: the parent ends, and its children with it
  if (pid_ < 0) return;
  for (int i = 0; i < 100; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    usleep(2000);
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

base::expected<reference_runner> reference_service::open(const std::string& torchscript, int core,
                                                         std::int64_t memory_bytes) {
  QUERN_TRY(auto ends, runner_link::make_pair());
  QUERN_CHECK(
      send_fork(control_.get(), {memory_bytes, core, required_ ? 1U : 0U}, ends.second.get()));
  runner::fork_reply forked;
  if (!readable_within(control_.get(), 10'000) ||
      recv(control_.get(), &forked, sizeof forked, 0) != static_cast<ssize_t>(sizeof forked))
    return base::fail(base::errc::unavailable, "the reference process does not answer");
  if (forked.pid < 0)
    return base::fail(base::errc::unavailable, "the reference process cannot fork: {}",
                      std::strerror(forked.error));
  ends.second.reset();
  base::killed_at_end process(pid_, forked.pid);
  runner_link link(std::move(ends.first), forked.pid);
  auto compiled = link.script(torchscript, script_limits);
  if (!compiled) return tl::make_unexpected(as_error(compiled.error()));
  return reference_runner(std::move(process), std::move(link),
                          layer_set::from_bits(static_cast<std::uint32_t>(compiled->value)));
}

base::expected<std::vector<std::vector<std::byte>>> reference_runner::run(
    const task_instance& instance, std::span<const std::vector<std::byte>> inputs, bool in_f64) {
  const auto outputs = in_f64 ? widened(instance.outputs) : instance.outputs;
  QUERN_TRY(auto in, make_input_arena(instance, 1));
  QUERN_TRY(auto out, tensor_arena::create(memory_use::outputs, outputs, 1));
  if (inputs.size() != instance.inputs.size())
    return base::fail(base::errc::invalid_argument, "{} inputs given, the task has {}",
                      inputs.size(), instance.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto to = in.at(i, 0);
    if (inputs[i].size() != to.size())
      return base::fail(base::errc::invalid_argument, "input {} has {} bytes, the task says {}",
                        instance.inputs[i].name, inputs[i].size(), to.size());
    std::copy(inputs[i].begin(), inputs[i].end(), to.begin());
  }
  QUERN_TRY(auto plan, make_plan(instance, in, out));
  plan.in_f64 = in_f64 ? 1 : 0;
  auto step = link_.map(in.request(0), in.fd(), run_limits);
  if (step) step = link_.map(out.request(1), out.fd(), run_limits);
  if (step) step = link_.plan(plan, run_limits);
  if (!step) return tl::make_unexpected(as_error(step.error()));
  if (auto ran = link_.run(0, 1, run_limits); !ran)
    return tl::make_unexpected(as_error(ran.error()));
  if (step = link_.flush(run_limits); !step) return tl::make_unexpected(as_error(step.error()));
  std::vector<std::vector<std::byte>> result;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto from = out.at(o, 0);
    result.emplace_back(from.begin(), from.end());
  }
  return result;
}

}  // namespace quern::env
