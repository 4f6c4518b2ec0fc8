#include "base/subprocess.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/write_signals.hpp"

extern "C" char** environ;

namespace quern::base {
namespace {

std::vector<std::string> merged_environment(const std::vector<std::string>& over) {
  std::vector<std::string> merged = over;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view old = *entry;
    const std::string_view name = old.substr(0, old.find('=') + 1);
    const bool replaced = std::any_of(
        over.begin(), over.end(), [&](const std::string& text) { return text.starts_with(name); });
    if (!replaced) merged.emplace_back(old);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts)
    result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// What a child reads, in a pipe; both ends are none where it reads what its parent does.
struct child_input {
  unique_fd read;
  unique_fd write;

  static expected<child_input> make(const subprocess_spec& spec) {
    // A pipe holds at least so much before anybody reads it.
    constexpr std::size_t most = 4096;
    child_input made;
    if (!spec.input) return made;
    if (spec.input->size() > most)
      return fail(errc::invalid_argument, "input of {} bytes for {}, at most {} are possible",
                  spec.input->size(), spec.argv[0], most);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe");
    made.read.reset(ends[0]);
    made.write.reset(ends[1]);
    QUERN_CHECK(write_all(made.write.get(), *spec.input));
    return made;
  }
};

/// Between fork and exec: only async-signal-safe calls. Reports errno through `report`.
[[noreturn]] void become(char* const* argv, char* const* environment, int input, int log,
                         int report, bool die_with_parent, pid_t parent) {
  if (die_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // For compilers and shells the end of a reader, or of what may be written, is an end.
  reset_write_signals();
  // A group of its own: Ctrl-C in a terminal reaches the parent alone, who pauses in order.
  ::setpgid(0, 0);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  if (log >= 0) {
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
  ::execve(argv[0], argv, environment);
  const int number = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &number, sizeof number);
  ::_exit(127);
}

}  // namespace

std::string describe(const exit_state& state) {
  if (state.signal != 0) {
    return fmt::format("killed by signal {} ({})", state.signal, strsignal(state.signal));
  }
  return fmt::format("exit code {}", state.code);
}

expected<subprocess> subprocess::start(const subprocess_spec& spec) {
  if (spec.argv.empty()) return fail(errc::invalid_argument, "no program to start");
  std::vector<std::string> argv_texts = spec.argv;
  std::vector<std::string> environment_texts = merged_environment(spec.environment);
  const std::vector<char*> argv = pointers(argv_texts);
  const std::vector<char*> environment = pointers(environment_texts);
  unique_fd log;
  if (!spec.log.empty()) {
    log.reset(::open(spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!log) return fail_errno("cannot open log " + spec.log.string());
  }
  QUERN_TRY(child_input input, child_input::make(spec));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe");
  const unique_fd failure(ends[0]);
  unique_fd report(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("cannot start " + spec.argv[0]);
  if (pid == 0) {
    become(argv.data(), environment.data(), input.read.get(), log.get(), report.get(),
           spec.die_with_parent, parent);
  }
  report.reset();
  int number = 0;
  if (::read(failure.get(), &number, sizeof number) == sizeof number) {
    ::waitpid(pid, nullptr, 0);
    return fail(errc::io, "cannot start {}: {}", spec.argv[0], std::strerror(number));
  }
  unique_fd pid_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pid_fd) {
    auto problem = fail_errno("cannot watch " + spec.argv[0]);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return problem;
  }
  return subprocess(pid, std::move(pid_fd), std::move(input.write));
}

subprocess::subprocess(subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pid_fd_(std::move(other.pid_fd_)),
      input_(std::move(other.input_)),
      ended_(other.ended_) {}

subprocess& subprocess::operator=(subprocess&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, -1);
    pid_fd_ = std::move(other.pid_fd_);
    input_ = std::move(other.input_);
    ended_ = other.ended_;
  }
  return *this;
}

subprocess::~subprocess() {
  end();
}

void subprocess::end() noexcept {
  if (pid_ < 0 || ended_) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<exit_state> subprocess::poll() {
  if (ended_) return ended_;
  int raw = 0;
  if (::waitpid(pid_, &raw, WNOHANG) != pid_) return std::nullopt;
  exit_state state;
  if (WIFSIGNALED(raw)) state.signal = WTERMSIG(raw);
  if (WIFEXITED(raw)) state.code = WEXITSTATUS(raw);
  ended_ = state;
  return ended_;
}

std::optional<exit_state> subprocess::wait(nanoseconds_t timeout) {
  const steady_clock time;
  const nanoseconds_t deadline = time.now_ns() + timeout;
  while (true) {
    if (auto state = poll()) return state;
    const nanoseconds_t left = deadline - time.now_ns();
    if (left <= 0) return std::nullopt;
    pollfd watched{pid_fd_.get(), POLLIN, 0};
    ::poll(&watched, 1, static_cast<int>(std::min<nanoseconds_t>(left / 1'000'000 + 1, 1'000'000)));
  }
}

void subprocess::send_signal(int number) {
  if (!poll()) ::kill(pid_, number);
}

}  // namespace quern::base
