// Lines of recorded completions.
#include "actors/orchestrator/recorded_file.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

constexpr std::string_view line_form =
    R"({"task": NAME, "completion": TEXT} or {"prompt": XXH128, "completion": TEXT})";
/// An object of texts: nothing in it is nested.
constexpr int line_depth = 2;

base::status check_keys(const base::json& object) {
  for (const auto& [key, value] : object.items()) {
    if (key != "task" && key != "prompt" && key != "completion")
      return fail(errc::invalid_argument, "unknown key '{}': a line is {}", key, line_form);
    if (!value.is_string())
      return fail(errc::invalid_argument, "'{}' is a {}, but must be a text", key,
                  value.type_name());
  }
  if (object.contains("task") == object.contains("prompt"))
    return fail(errc::invalid_argument, "{}: a line is {}",
                object.contains("task") ? "both 'task' and 'prompt' are given"
                                        : "neither 'task' nor 'prompt' is given",
                line_form);
  return {};
}

base::expected<recorded_completion> completion_of(std::string_view line) {
  QUERN_TRY(const base::json object, base::parse_json(line, line_depth));
  if (!object.is_object())
    return fail(errc::invalid_argument, "not an object: a line is {}", line_form);
  QUERN_CHECK(check_keys(object));
  recorded_completion made;
  if (object.contains("prompt")) {
    QUERN_TRY(const auto hash, base::get<std::string>(object, "prompt"));
    auto parsed = base::parse_hash(hash);
    if (!parsed) return base::in_context("'prompt' is the xxh128 of a prompt", parsed.error());
    made.prompt = *parsed;
  } else {
    QUERN_TRY(made.task, base::get<std::string>(object, "task"));
    if (made.task.empty())
      return fail(errc::invalid_argument, "'task' is empty: write the task's name or id");
  }
  QUERN_TRY(made.text, base::get<std::string>(object, "completion"));
  if (made.text.empty())
    return fail(errc::invalid_argument, "'completion' is empty: leave the line out");
  return made;
}

}  // namespace

base::expected<std::vector<recorded_completion>> parse_recorded(std::string_view text,
                                                                const recorded_limits& limits) {
  if (text.size() > limits.bytes)
    return fail(errc::invalid_argument, "{} bytes, at most {} are read: split the file",
                text.size(), limits.bytes);
  std::vector<recorded_completion> all;
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = base::trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty()) continue;
    if (line.size() > limits.line_bytes)
      return fail(errc::invalid_argument,
                  "line {} has {} bytes, the limit is {}: leave the completion out", number,
                  line.size(), limits.line_bytes);
    if (std::ssize(all) == limits.completions)
      return fail(errc::invalid_argument,
                  "line {} is one completion more than the limit of {}: split the file", number,
                  limits.completions);
    auto made = completion_of(line);
    if (!made) return base::in_context(fmt::format("line {}", number), made.error());
    made->line = number;
    all.push_back(std::move(*made));
  }
  if (all.empty())
    return fail(errc::invalid_argument, "no completion in it: write a line {} for each", line_form);
  return all;
}

base::expected<std::string> read_recorded(const std::filesystem::path& file,
                                          const recorded_limits& limits) {
  return base::read_file(file, limits.bytes);
}

}  // namespace quern::actors
