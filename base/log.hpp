// Log lines on stderr: time, level, component, text. Thread-safe; a line is one write.
#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>

namespace quern::base {

enum class log_level { debug, info, warning, error };

/// Lines below `level` are not written. Default: info.
void set_log_level(log_level level);

/// By name: debug, info, warning, error. An unknown name changes nothing and gives false.
bool set_log_level(std::string_view name);

void log(log_level level, std::string_view component, std::string_view text);

/// `text` as a line of its own among the log lines, without time and level, whatever the level is.
void print_line(std::string_view text);

template <class... Args>
void log_debug(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log(log_level::debug, component, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log(log_level::info, component, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log(log_level::warning, component, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log(log_level::error, component, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace quern::base
