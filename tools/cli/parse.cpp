#include "tools/cli/parse.hpp"

#include "tools/cli/command.hpp"

namespace quern::tools {

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? done : usage;
  }
}

}  // namespace quern::tools
