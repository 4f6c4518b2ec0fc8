#include "tools/cli/parse.hpp"

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.hpp"
#include "base/text.hpp"
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
              return fmt::format("'{}' is not {} in {}", text, kind, range);
            // Written so that NaN is outside.
            if (value >= low && value <= high) return "";
            return fmt::format("{} is outside {}", text, range);
          },
          range, ""};
}

/// The command that was named: `app` itself, or one below it.
const CLI::App& named(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : *below.front();
}

std::vector<std::string> commands_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(one->get_name());
  return names;
}

std::string guess(const std::string& word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  return base::did_you_mean(word, names);
}

/// An option that nobody knows. It is told first: without it, what follows is not what was meant.
std::string unknown_option(const CLI::App& app, const std::vector<std::string>& left) {
  std::vector<std::string> known;
  for (const CLI::Option* one : named(app).get_options())
    for (const std::string& name : one->get_lnames())
      known.push_back("--" + name);
  for (const std::string& word : left) {
    if (word.size() < 2 || word.front() != '-' || word == "--") continue;
    const std::string name = word.substr(0, word.find('='));
    return fmt::format("unknown option '{}'{}", name, guess(name, known));
  }
  return "";
}

/// "runs: At Most 8 required but received 9" as "runs: 9 given, at most 8 allowed".
std::optional<std::string> count_problem(const std::string& option, const std::string& text) {
  const auto word_behind = [&](std::string_view mark) {
    const std::size_t at = text.find(mark);
    if (at == text.npos) return std::string();
    return text.substr(at + mark.size(), text.find(' ', at + mark.size()) - at - mark.size());
  };
  const std::string given = word_behind("received "), most = word_behind("At Most "),
                    least = word_behind("At least ");
  if (given.empty() || (most.empty() && least.empty())) return std::nullopt;
  if (most.empty()) return fmt::format("{}: {} given, at least {} needed", option, given, least);
  return fmt::format("{}: {} given, at most {} allowed", option, given, most);
}

/// What CLI11 found wrong, with the value and what is needed.
std::string problem_of(const CLI::App& app, const CLI::ParseError& problem) {
  const auto left = app.remaining(true);
  if (auto unknown = unknown_option(app, left); !unknown.empty()) return unknown;
  const auto commands = commands_below(app);
  if (!commands.empty() && app.get_subcommands().empty())
    return left.empty() ? fmt::format("one of {} is needed", fmt::join(commands, ", "))
                        : fmt::format("no command '{}'{}: one of {} is needed", left.front(),
                                      guess(left.front(), commands), fmt::join(commands, ", "));
  // By the code: what CLI11 names some of its errors after is the command.
  const auto kind = static_cast<CLI::ExitCodes>(problem.get_exit_code());
  const std::string text = problem.what();
  if (kind == CLI::ExitCodes::ExtrasError)
    return fmt::format("nothing takes the argument '{}'",
                       left.empty() ? text.substr(text.find(": ") + 2) : left.front());
  if (kind == CLI::ExitCodes::RequiredError)
    for (const CLI::Option* one : named(app).get_options())
      if (one->get_required() && one->count() == 0)
        return fmt::format("{} is missing: {}", one->get_name(), one->get_description());
  const std::string option = text.substr(0, text.find(':'));
  if (kind == CLI::ExitCodes::ArgumentMismatch && text.ends_with("missing"))
    return option + " needs a value";
  if (kind == CLI::ExitCodes::ArgumentMismatch && text.find("At Most 1 ") != text.npos)
    return option + " stands there more than once: say it once";
  if (kind == CLI::ExitCodes::ArgumentMismatch)
    if (const auto counted = count_problem(option, text)) return *counted;
  const std::size_t excludes = text.find(" excludes ");
  if (kind == CLI::ExitCodes::ExcludesError && excludes != text.npos)
    return fmt::format("{} and {} do not go together: say one of them", text.substr(0, excludes),
                       text.substr(excludes + 10));
  return text;
}

int refuse(const CLI::App& app, const std::string& problem) {
  const CLI::App& command = named(app);
  const std::string below = &command == &app ? "" : " " + command.get_name();
  std::fprintf(stderr, "%s%s: %s; %s%s --help tells more\n", app.get_name().c_str(), below.c_str(),
               base::printable(problem).c_str(), app.get_name().c_str(), below.c_str());
  return usage;
}

}  // namespace

CLI::Validator number_within(double low, double high) {
  return within(low, high, "a number");
}
CLI::Validator whole_within(std::int64_t low, std::int64_t high) {
  return within(low, high, "a whole number");
}

base::status refuse_keys_of_options(std::span<const std::string> settings,
                                    std::span<const key_of_option> keys) {
  for (const std::string& setting : settings) {
    const std::string_view key = std::string_view(setting).substr(0, setting.find('='));
    for (const key_of_option& one : keys)
      if (key == one.key || key.ends_with(fmt::format(".{}", one.key)))
        return base::fail(base::errc::invalid_argument, "--set {}: say it by {}", setting,
                          one.option);
  }
  return {};
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  if (app.get_name().empty()) app.name(std::string("quern ") + argv[0]);
  // Of a shell variable that is not set: nobody means a file without a name by it.
  for (int i = 1; i < argc; ++i)
    if (*argv[i] == '\0')
      return refuse(app, fmt::format("argument {} is empty: give it a value or leave it out", i));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    return refuse(app, problem_of(app, problem));
  }
  return std::nullopt;
}

}  // namespace quern::tools
