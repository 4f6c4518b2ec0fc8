#include "tools/cli/parse.hpp"

#include <charconv>

#include <fmt/format.h>

#include "tools/cli/command.hpp"

namespace quern::tools {
namespace {

template <class Number>
CLI::Validator within(Number low, Number high, const char* kind) {
  const std::string range = fmt::format("{} .. {}", low, high);
  return {[=](const std::string& text) -> std::string {
            Number value{};
            const char* end = text.data() + text.size();
            const auto [stop, code] = std::from_chars(text.data(), end, value);
            if (code == std::errc::result_out_of_range)
              return fmt::format("{} is outside {}", text, range);
            if (code != std::errc() || stop != end)
              return fmt::format("'{}' is not {}", text, kind);
            // Written so that NaN is outside.
            if (value >= low && value <= high) return "";
            return fmt::format("{} is outside {}", text, range);
          },
          range, ""};
}

}  // namespace

CLI::Validator number_within(double low, double high) {
  return within(low, high, "a number");
}
CLI::Validator whole_within(std::int64_t low, std::int64_t high) {
  return within(low, high, "a whole number");
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? done : usage;
  }
}

}  // namespace quern::tools
