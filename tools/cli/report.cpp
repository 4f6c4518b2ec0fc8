// How a command says that something went wrong.
#include <cerrno>

#include "base/printable.hpp"
#include "tools/cli/command.hpp"

namespace quern::tools {

int report(std::string_view name, const base::error& problem) {
  std::fprintf(stderr, "quern %.*s: %s\n", static_cast<int>(name.size()), name.data(),
               base::printable(problem.message).c_str());
  switch (problem.code) {
    case base::errc::invalid_argument:
    case base::errc::not_found:
    case base::errc::already_exists:
    case base::errc::version:
      return usage;
    default:
      return failed;
  }
}

int print_result(std::string_view name, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return done;
  if (errno == EPIPE) return done;
  return report(name, base::fail_errno("cannot write the result to standard output").value());
}

}  // namespace quern::tools
