// Lines for whoever started a command, who may be gone: a terminal that was closed, a pipe without
// a reader. What cannot be told there is no reason to end a run without its pause.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace quern::tools {

/// fmt::print, but an output that cannot be written is no error (fmt would throw).
template <class... Args>
void tell(std::FILE* to, fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), to);
}

}  // namespace quern::tools
