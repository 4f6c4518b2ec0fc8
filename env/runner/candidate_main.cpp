// quern-runner: the process that one candidate lives in. It maps the evaluator's memory, loads the
// artefact and calls it when told to; it decides nothing, measures nothing and links nothing big.
#include <array>
#include <cerrno>
#include <cstring>

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "env/runner/call_words.hpp"
#include "env/runner/channel.hpp"
#include "env/runner/cpu_lock.hpp"
#include "env/runner/gpu_main.hpp"
#include "env/runner/mapping.hpp"
#include "env/runner/nvrtc_main.hpp"
#include "env/runner/protocol.hpp"
#include "env/runner/serve.hpp"

namespace quern::env::runner {
namespace {

struct prepared_plan {
  std::size_t tensors = 0, arguments = 0;
  words first{};
  std::array<std::uint64_t, max_tensors> stride{};
};

command_server candidate_server;

// Tells where a candidate died, for the person who wrote it, and dies. The evaluator believes only
// that the process is gone.
void on_fault(int signal, siginfo_t* info, void* context) {
  reply r = make_reply(candidate_server.ticket, outcome::fault,
                       reinterpret_cast<std::uint64_t>(info->si_addr), nullptr);
  r.signal = static_cast<std::uint32_t>(signal);
#if defined(__x86_64__)
  const auto* machine = static_cast<const ucontext_t*>(context);
  r.was_write = (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  (void)context;
#endif
  send_reply(socket_fd, r);
  _exit(70);
}

void catch_faults() {
  static std::array<std::byte, 32 * 1024> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &action, nullptr);
}

class candidate_runner {
 public:
  reply map(const question& asked, const map_request& request);
  reply load(const question& asked, const load_request& request);
  reply workspace(const question& asked, const call_plan& p);
  reply plan(const question& asked, const call_plan& p);
  reply run(const question& asked, const run_request& request);
  reply flush(const question& asked) { return asked.done(); }

 private:
  mapped_files files_;
  std::array<char, sizeof(load_request::path)> loaded_{};
  void* kernel_ = nullptr;
  void* workspace_bytes_ = nullptr;
  prepared_plan plan_;
};

// A kernel without system call filters has no sandbox of them either: its evaluator was told to run
// with what there is, and its verdicts say so.
bool is_locked(cpu_lock stage, int& error) {
  error = lock_down(stage);
  return error == 0 || error == EINVAL || error == ENOSYS;
}

reply candidate_runner::map(const question& asked, const map_request& request) {
  if (!files_.map(request, asked.descriptor)) return asked.failed(std::strerror(errno));
  return asked.done(reinterpret_cast<std::uint64_t>(files_.at(request.file, 0)));
}

reply candidate_runner::load(const question& asked, const load_request& request) {
  if (request.path.back() != 0) return asked.unusable();
  // A process is of one candidate; who uses it again asks what it is.
  if (loaded_[0] != 0 && std::strcmp(loaded_.data(), request.path.data()) != 0)
    return asked.failed("this process has another candidate");
  if (loaded_[0] == 0) {
    int error = 0;
    if (!is_locked(cpu_lock::before_loading, error)) return asked.failed(std::strerror(error));
    void* library = dlopen(request.path.data(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return asked.failed(dlerror());
    if (!is_locked(cpu_lock::before_calling, error)) return asked.failed(std::strerror(error));
    kernel_ = dlsym(library, "kernel");
    if (kernel_ == nullptr)
      return asked.failed("the candidate does not define extern \"C\" void kernel(...)");
    workspace_bytes_ = dlsym(library, "workspace_bytes");
    loaded_ = request.path;
  }
  return asked.done(workspace_bytes_ != nullptr ? 1 : 0);
}

reply candidate_runner::workspace(const question& asked, const call_plan& p) {
  if (p.sizes > max_sizes) return asked.unusable();
  if (workspace_bytes_ == nullptr) return asked.done();
  return asked.done(
      static_cast<std::uint64_t>(size_questions[p.sizes](workspace_bytes_, p.size_values)));
}

reply candidate_runner::plan(const question& asked, const call_plan& p) {
  const std::size_t tensors = std::size_t{p.inputs} + p.outputs;
  if (tensors > max_tensors || p.sizes > max_sizes) return asked.failed("plan out of bounds");
  plan_ = {};
  plan_.tensors = tensors;
  std::size_t n = 0;
  for (; n < tensors; ++n) {
    const auto& place = p.tensors[n];
    plan_.first[n] = reinterpret_cast<std::uint64_t>(files_.at(place.file, place.offset));
    plan_.stride[n] = place.stride;
    if (plan_.first[n] == 0) return asked.failed("a tensor lies outside its file");
  }
  for (std::size_t i = 0; i < p.sizes; ++i)
    plan_.first[n++] = static_cast<std::uint64_t>(p.size_values[i]);
  plan_.first[n++] =
      p.has_workspace != 0
          ? reinterpret_cast<std::uint64_t>(files_.at(p.workspace_file, p.workspace_offset))
          : 0;
  plan_.first[n++] = 0;  // stream
  plan_.arguments = n;
  return asked.done();
}

reply candidate_runner::run(const question& asked, const run_request& request) {
  if (kernel_ == nullptr || plan_.arguments == 0) return asked.unusable();
  words a = plan_.first;
  for (std::size_t t = 0; t < plan_.tensors; ++t)
    a[t] += static_cast<std::uint64_t>(request.begin) * plan_.stride[t];
  const auto call = word_calls[plan_.arguments];
  for (std::int64_t i = request.begin; i < request.end; ++i) {
    call(kernel_, a);
    for (std::size_t t = 0; t < plan_.tensors; ++t)
      a[t] += plan_.stride[t];
  }
  return asked.done();
}

constexpr std::array candidate_commands{
    handled_by<command::run, &candidate_runner::run>(),
    handled_by<command::plan, &candidate_runner::plan>(),
    handled_by<command::workspace, &candidate_runner::workspace>(),
    handled_by<command::map, &candidate_runner::map>(),
    handled_by<command::load, &candidate_runner::load>(),
    handled_by<command::flush, &candidate_runner::flush>(),
};

int serve_candidate() {
  catch_faults();
  candidate_runner runner;
  alignas(64) static std::array<std::byte, longest_message(candidate_commands)> buffer;
  candidate_server.handlers = candidate_commands;
  candidate_server.runner = &runner;
  return serve_commands(candidate_server, socket_fd, buffer);
}

}  // namespace
}  // namespace quern::env::runner

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "gpu") == 0) return quern::env::runner::serve_gpu(argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "nvrtc") == 0)
    return quern::env::runner::compile_with_nvrtc(argv[2]);
  return quern::env::runner::serve_candidate();
}
