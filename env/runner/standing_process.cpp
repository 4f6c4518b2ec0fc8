// Stops a process, and lets it go on.
#include "env/runner/standing_process.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/file.hpp"

namespace quern::env {
namespace {

/// 'T' of one that stands; 0: there is no such process. Error: the kernel does not tell.
base::expected<char> state_of(int process) {
  const auto unknown = [&]() -> base::expected<char> {
    if (errno == ENOENT || errno == ESRCH) return 0;
    return base::fail_errno(fmt::format("reading the state of process {}", process));
  };
  const base::unique_fd file(
      open(fmt::format("/proc/{}/stat", process).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return unknown();
  std::array<char, 512> text{};
  const ssize_t got = read(file.get(), text.data(), text.size());
  if (got < 0) return unknown();
  // Behind the name, in parentheses, which may hold any of them.
  const std::string_view line(text.data(), static_cast<std::size_t>(got));
  const auto end = line.rfind(") ");
  return end == line.npos || end + 2 >= line.size() ? '?' : line[end + 2];
}

}  // namespace

bool is_standing(int process) {
  const auto state = state_of(process);
  return state && *state == 'T';
}

base::status standing_process::stop(int process, double seconds) {
  // Somebody else may have let it go on.
  if (process_ == process && is_standing(process)) return {};
  if (process_ != process) go_on();
  if (::kill(process, SIGSTOP) != 0) {
    if (errno == ESRCH) return {};
    return base::fail_errno(fmt::format("stopping process {}", process));
  }
  process_ = process;
  constexpr int yields = 200;  // it may need this core to stop on
  constexpr auto step = std::chrono::microseconds(50);
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  for (int tried = 0;; ++tried) {
    const auto state = state_of(process);
    if (!state) {
      go_on();
      return tl::make_unexpected(state.error());
    }
    if (*state == 'T' || *state == 'Z' || *state == 0) return {};
    if (static_cast<double>(clock.now_ns() - begin) * 1e-9 > seconds) break;
    if (tried < yields)
      sched_yield();
    else
      std::this_thread::sleep_for(step);
  }
  go_on();
  return base::fail(base::errc::timeout, "process {} did not stand still within {} s", process,
                    seconds);
}

void standing_process::go_on_first() {
  if (process_ == 0) return;
  go_on();
  sched_yield();
}

void standing_process::go_on() {
  const int process = std::exchange(process_, 0);
  if (process != 0) (void)::kill(process, SIGCONT);
}

}  // namespace quern::env
