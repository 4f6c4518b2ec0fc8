// A running or ended child.
#include "env/sandbox/child.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/sandbox/child_state.hpp"

namespace quern::env {
namespace {

/// Of its time limit, in processor time: who used that much was at work.
constexpr double busy_share = 0.9;

std::string signal_text(int number) {
  if (number == SIGSYS) return "SIGSYS (a system call that the sandbox forbids)";
  const char* name = sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

// The child may have moved the offset, so the text ends at the last byte that is not zero.
std::string read_capture(const base::unique_fd& file) {
  if (!file) return "";
  const off_t size = lseek(file.get(), 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::max<off_t>(size, 0)), '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace

std::string child_end::text() const {
  const std::string memory = out_of_memory ? " (out of memory)" : "";
  switch (ending) {
    case kind::exited:
      return fmt::format("exit status {}{}", code, memory);
    case kind::signalled:
      return signal_text(code) + memory;
    case kind::timed_out:
      return "timed out";
    case kind::killed:
      return "killed";
  }
  return "";
}

void child::state::strike() {
  syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  if (!own_pids) ::kill(-pid, SIGKILL);
  if (group) group->kill();
}

bool child::state::ended_within(double seconds) const {
  const auto until = clock::now() + std::chrono::duration<double>(std::max(seconds, 0.0));
  pollfd item{pidfd.get(), POLLIN, 0};
  for (;;) {
    int ms = -1;
    if (seconds >= 0) {
      const std::chrono::duration<double, std::milli> left = until - clock::now();
      ms = static_cast<int>(std::ceil(std::clamp(left.count(), 0.0, 1e9)));
    }
    const int rc = poll(&item, 1, ms);
    if (rc > 0) return true;
    if (rc == 0) return false;
    if (errno != EINTR) return false;
  }
}

child_end child::state::reap() {
  const std::lock_guard lock(mutex);
  if (end) return *end;
  // Without a pid namespace its descendants share its process group and are still running.
  if (!own_pids) ::kill(-pid, SIGKILL);
  siginfo_t info{};
  rusage usage{};
  long rc = 0;
  do {
    rc = syscall(SYS_waitid, P_PID, pid, &info, WEXITED, &usage);
  } while (rc < 0 && errno == EINTR);
  if (!own_pids)
    while (waitpid(-pid, nullptr, 0) > 0 || errno == EINTR) {
    }
  child_end result;
  result.user_us = usage.ru_utime.tv_sec * 1'000'000 + usage.ru_utime.tv_usec;
  result.system_us = usage.ru_stime.tv_sec * 1'000'000 + usage.ru_stime.tv_usec;
  result.peak_bytes = usage.ru_maxrss * 1024;
  result.code = info.si_status;
  if (info.si_code != CLD_EXITED) result.ending = child_end::kind::signalled;
  if (group) {
    result.out_of_memory = group->had_oom_kill();
    group->remove();
    group.reset();
  }
  if (result.ending == child_end::kind::signalled && !result.out_of_memory) {
    const double used = static_cast<double>(result.user_us + result.system_us) * 1e-6;
    const bool cpu_over = cpu_s > 0 && used >= 0.98 * cpu_s;
    if (result.code == SIGKILL && timed_out) {
      result.ending = child_end::kind::timed_out;
      result.stalled = used < busy_share * (cpu_s > 0 ? std::min(cpu_s, wall_s) : wall_s);
    } else if (result.code == SIGKILL && killed) {
      result.ending = child_end::kind::killed;
    } else if (result.code == SIGXCPU || (result.code == SIGKILL && cpu_over)) {
      result.ending = child_end::kind::timed_out;
    }
  }
  end = result;
  return result;
}

child::child(std::shared_ptr<state> s) : state_(std::move(s)) {}
child::~child() {
  kill();
}
int child::pidfd() const {
  return state_->pidfd.get();
}
int child::pid() const {
  return state_->pid;
}
layer_set child::layers() const {
  return state_->layers;
}
int child::work_folder() const {
  return state_->work.get();
}
std::string child::captured_out() const {
  return read_capture(state_->out);
}
std::string child::captured_err() const {
  return read_capture(state_->err);
}

std::optional<child_end> child::wait(double seconds) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->end) return state_->end;
  }
  if (!state_->ended_within(seconds)) return std::nullopt;
  return state_->reap();
}

child_end child::kill() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->end) return *state_->end;
    state_->killed = true;
    state_->strike();
  }
  state_->ended_within(-1);
  return state_->reap();
}

void child::stop() {
  constexpr auto step = std::chrono::microseconds(100);
  constexpr auto patience = std::chrono::seconds(10);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->end || std::exchange(state_->stopped, true)) return;
    syscall(SYS_pidfd_send_signal, state_->pidfd.get(), SIGSTOP, nullptr, 0);
  }
  // Without the mutex, which the spawner needs for every child.
  for (const auto until = state::clock::now() + patience; state::clock::now() < until;) {
    siginfo_t info{};
    const int rc =
        waitid(P_PIDFD, static_cast<id_t>(state_->pidfd.get()), &info, WSTOPPED | WNOHANG);
    if (rc == 0 && info.si_pid != 0) return;
    if ((rc != 0 && errno != EINTR) || state_->ended_within(0)) return;
    std::this_thread::sleep_for(step);
  }
  const std::lock_guard lock(state_->mutex);
  if (!state_->end) state_->strike();
}

void child::go_on() {
  const std::lock_guard lock(state_->mutex);
  if (state_->end || !std::exchange(state_->stopped, false)) return;
  syscall(SYS_pidfd_send_signal, state_->pidfd.get(), SIGCONT, nullptr, 0);
}

}  // namespace quern::env
