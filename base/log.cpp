#include "base/log.hpp"

#include <atomic>
#include <ctime>

#include <unistd.h>

#include "base/clock.hpp"

namespace quern::base {
namespace {

std::atomic<log_level> threshold{log_level::info};

std::string_view name(log_level level) {
  switch (level) {
    case log_level::debug:
      return "debug";
    case log_level::info:
      return "info";
    case log_level::warning:
      return "warning";
    case log_level::error:
      return "error";
  }
  return "info";
}

}  // namespace

void set_log_level(log_level level) {
  threshold = level;
}

bool set_log_level(std::string_view wanted) {
  for (const log_level level :
       {log_level::debug, log_level::info, log_level::warning, log_level::error}) {
    if (name(level) != wanted) continue;
    set_log_level(level);
    return true;
  }
  return false;
}

void print_line(std::string_view text) {
  const std::string line = fmt::format("{}\n", text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void log(log_level level, std::string_view component, std::string_view text) {
  if (level < threshold.load(std::memory_order_relaxed)) return;
  const nanoseconds_t now = unix_time_ns();
  const std::time_t seconds = now / 1_s;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  const std::string line =
      fmt::format("{:02}:{:02}:{:02}.{:03} {} {}: {}\n", parts.tm_hour, parts.tm_min, parts.tm_sec,
                  now % 1_s / 1_ms, name(level), component, text);
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace quern::base
