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

namespace quern::env::runner {
namespace {

struct prepared_plan {
  std::size_t tensors = 0, arguments = 0;
  words first{};
  std::array<std::uint64_t, max_tensors> stride{};
};

std::uint64_t ticket_now = 0;

// Tells where a candidate died, for the person who wrote it, and dies. The evaluator believes only
// that the process is gone.
void on_fault(int signal, siginfo_t* info, void* context) {
  reply r = make_reply(ticket_now, outcome::fault, reinterpret_cast<std::uint64_t>(info->si_addr),
                       nullptr);
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
  reply handle(command what, std::uint64_t ticket, const std::byte* body, std::size_t bytes,
               int fd);

 private:
  reply load(std::uint64_t ticket, const load_request& request);
  reply plan(std::uint64_t ticket, const call_plan& p);

  mapped_files files_;
  std::array<char, sizeof(load_request::path)> loaded_{};
  void* kernel_ = nullptr;
  void* workspace_bytes_ = nullptr;
  prepared_plan plan_;
};

template <class Body>
const Body* as(const std::byte* body, std::size_t bytes) {
  return bytes == sizeof(Body) ? reinterpret_cast<const Body*>(body) : nullptr;
}

// A kernel without system call filters has no sandbox of them either: its evaluator was told to run
// with what there is, and its verdicts say so.
bool is_locked(cpu_lock stage, int& error) {
  error = lock_down(stage);
  return error == 0 || error == EINVAL || error == ENOSYS;
}

reply candidate_runner::load(std::uint64_t ticket, const load_request& request) {
  // A process is of one candidate; who uses it again asks what it is.
  if (loaded_[0] != 0 && std::strcmp(loaded_.data(), request.path.data()) != 0)
    return make_reply(ticket, outcome::failed, 0, "this process has another candidate");
  if (loaded_[0] == 0) {
    int error = 0;
    if (!is_locked(cpu_lock::before_loading, error))
      return make_reply(ticket, outcome::failed, 0, std::strerror(error));
    void* library = dlopen(request.path.data(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return make_reply(ticket, outcome::failed, 0, dlerror());
    if (!is_locked(cpu_lock::before_calling, error))
      return make_reply(ticket, outcome::failed, 0, std::strerror(error));
    kernel_ = dlsym(library, "kernel");
    if (kernel_ == nullptr)
      return make_reply(ticket, outcome::failed, 0,
                        "the candidate does not define extern \"C\" void kernel(...)");
    workspace_bytes_ = dlsym(library, "workspace_bytes");
    loaded_ = request.path;
  }
  return make_reply(ticket, outcome::done, workspace_bytes_ != nullptr ? 1 : 0, nullptr);
}

reply candidate_runner::plan(std::uint64_t ticket, const call_plan& p) {
  const std::size_t tensors = std::size_t{p.inputs} + p.outputs;
  if (tensors > max_tensors || p.sizes > max_sizes)
    return make_reply(ticket, outcome::failed, 0, "plan out of bounds");
  plan_ = {};
  plan_.tensors = tensors;
  std::size_t n = 0;
  for (; n < tensors; ++n) {
    const auto& place = p.tensors[n];
    plan_.first[n] = reinterpret_cast<std::uint64_t>(files_.at(place.file, place.offset));
    plan_.stride[n] = place.stride;
    if (plan_.first[n] == 0)
      return make_reply(ticket, outcome::failed, 0, "a tensor lies outside its file");
  }
  for (std::size_t i = 0; i < p.sizes; ++i)
    plan_.first[n++] = static_cast<std::uint64_t>(p.size_values[i]);
  plan_.first[n++] =
      p.has_workspace != 0
          ? reinterpret_cast<std::uint64_t>(files_.at(p.workspace_file, p.workspace_offset))
          : 0;
  plan_.first[n++] = 0;  // stream
  plan_.arguments = n;
  return make_reply(ticket, outcome::done, 0, nullptr);
}

reply candidate_runner::handle(command what, std::uint64_t ticket, const std::byte* body,
                               std::size_t bytes, int fd) {
  switch (what) {
    case command::run:
      if (const auto* r = as<run_request>(body, bytes);
          r != nullptr && kernel_ != nullptr && plan_.arguments != 0) {
        words a = plan_.first;
        for (std::size_t t = 0; t < plan_.tensors; ++t)
          a[t] += static_cast<std::uint64_t>(r->begin) * plan_.stride[t];
        const auto call = word_calls[plan_.arguments];
        for (std::int64_t i = r->begin; i < r->end; ++i) {
          call(kernel_, a);
          for (std::size_t t = 0; t < plan_.tensors; ++t)
            a[t] += plan_.stride[t];
        }
        return make_reply(ticket, outcome::done, 0, nullptr);
      }
      break;
    case command::plan:
      if (const auto* p = as<call_plan>(body, bytes)) return plan(ticket, *p);
      break;
    case command::workspace:
      if (const auto* p = as<call_plan>(body, bytes); p != nullptr && p->sizes <= max_sizes) {
        if (workspace_bytes_ == nullptr) return make_reply(ticket, outcome::done, 0, nullptr);
        return make_reply(
            ticket, outcome::done,
            static_cast<std::uint64_t>(size_questions[p->sizes](workspace_bytes_, p->size_values)),
            nullptr);
      }
      break;
    case command::map:
      if (const auto* m = as<map_request>(body, bytes)) {
        if (!files_.map(*m, fd))
          return make_reply(ticket, outcome::failed, 0, std::strerror(errno));
        return make_reply(ticket, outcome::done,
                          reinterpret_cast<std::uint64_t>(files_.at(m->file, 0)), nullptr);
      }
      break;
    case command::load:
      if (const auto* l = as<load_request>(body, bytes); l != nullptr && l->path.back() == 0)
        return load(ticket, *l);
      break;
    case command::flush:
      return make_reply(ticket, outcome::done, 0, nullptr);
    default:
      break;
  }
  return make_reply(ticket, outcome::failed, 0, "unusable message");
}

int serve() {
  catch_faults();
  candidate_runner runner;
  alignas(64) static std::array<std::byte, sizeof(header) + sizeof(call_plan) + sizeof(map_request)>
      buffer;
  for (;;) {
    int fd = -1;
    const std::size_t got = receive(socket_fd, buffer, fd);
    if (got < sizeof(header)) return status_without_socket();
    header head;
    std::memcpy(&head, buffer.data(), sizeof head);
    ticket_now = head.ticket;
    const reply r =
        runner.handle(head.what, head.ticket, buffer.data() + sizeof head, got - sizeof head, fd);
    if (fd >= 0) close(fd);
    if (!send_reply(socket_fd, r)) return status_without_socket();
  }
}

}  // namespace
}  // namespace quern::env::runner

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "gpu") == 0) return quern::env::runner::serve_gpu(argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "nvrtc") == 0)
    return quern::env::runner::compile_with_nvrtc(argv[2]);
  return quern::env::runner::serve();
}
