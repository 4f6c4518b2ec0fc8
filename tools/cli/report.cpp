// How a command says that something went wrong.
#include "tools/cli/command.hpp"

namespace quern::tools {

int report(std::string_view name, const base::error& problem) {
  std::fprintf(stderr, "quern %.*s: %s\n", static_cast<int>(name.size()), name.data(),
               problem.message.c_str());
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

}  // namespace quern::tools
