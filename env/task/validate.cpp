// The rules that the head of a task has to keep, whatever made it.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/utf8.hpp"
#include "env/task/task.hpp"

namespace quern::env {

namespace {

template <class... Args>
tl::unexpected<base::error> refuse_task(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::errc::invalid_argument, format, std::forward<Args>(args)...);
}

base::status check_length(std::string_view which, std::string_view text) {
  if (text.size() <= max_block_bytes) return {};
  return refuse_task("{} text has {} bytes, at most {} are allowed", which, text.size(),
                     max_block_bytes);
}

tl::unexpected<base::error> refuse_byte(std::string_view which, std::string_view text,
                                        std::size_t at, std::string_view advice) {
  return refuse_task(
      "{} text has the byte {:#04x} in line {}: {}", which, static_cast<unsigned char>(text[at]),
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'), advice);
}

/// Whether a character of Unicode's class Cc begins at `at` of valid UTF-8, but for line breaks and
/// tabs. Those from U+0080 to U+009F are two bytes.
bool begins_control_character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(at) == 0xC2) return byte(at + 1) < 0xA0;
  return (byte(at) < ' ' && text[at] != '\n' && text[at] != '\t') || byte(at) == 0x7F;
}

base::status check_head(const task& what) {
  if (what.lane == nullptr) return refuse_task("it has no lane");
  if (!is_identifier(what.name, 100)) {
    return refuse_task(
        "'{}' is no task name: begin with a small letter, go on with letters, digits and _, at "
        "most 100",
        what.name);
  }
  if (!is_identifier(what.family, 50))
    return refuse_task("'{}' is no family: a word of letters, digits and _, at most 50",
                       what.family);
  for (const double bound : {what.tolerance.atol, what.tolerance.rtol}) {
    if (!std::isfinite(bound) || bound < 0)
      return refuse_task("tolerance {} is not a finite number of at least 0", bound);
  }
  return what.lane->body->reference == reference_text::utf8
             ? check_utf8_block("reference", what.reference)
             : check_block("reference", what.reference);
}

/// Whether what the lane asks of a body can be asked of this one.
base::status check_format(const task& what) {
  if (what.body == nullptr)
    return refuse_task("it has no body; tasks of lane {} have '{}'", what.lane->name,
                       what.lane->body->name);
  const body_format& found = what.body->format();
  if (&found == what.lane->body) return {};
  return refuse_task("its body is '{}', tasks of lane {} have '{}': make the body of its lane",
                     found.name, what.lane->name, what.lane->body->name);
}

base::status check_all(const task& what) {
  QUERN_CHECK(check_head(what));
  QUERN_CHECK(check_format(what));
  return what.body->validate(what);
}

}  // namespace

bool is_identifier(std::string_view text, std::size_t longest) {
  if (text.empty() || text.size() > longest || text[0] < 'a' || text[0] > 'z') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

base::status check_block(std::string_view which, std::string_view text) {
  QUERN_CHECK(check_length(which, text));
  const auto bad = std::find_if(text.begin(), text.end(), [](char c) {
    return (c < ' ' && c != '\n' && c != '\t') || c > '~';
  });
  if (bad != text.end())
    return refuse_byte(which, text, static_cast<std::size_t>(bad - text.begin()),
                       "use printable ASCII only");
  return {};
}

base::status check_utf8_block(std::string_view which, std::string_view text) {
  QUERN_CHECK(check_length(which, text));
  std::size_t bad = base::first_invalid_utf8(text);
  for (std::size_t at = 0; at < bad; ++at)
    if (begins_control_character(text, at)) bad = at;
  if (bad < text.size())
    return refuse_byte(which, text, bad,
                       "use UTF-8 without control characters other than line breaks and tabs");
  return {};
}

base::status validate(const task& what) {
  if (auto checked = check_all(what); !checked) {
    return base::in_context(fmt::format("task '{}'", what.name), std::move(checked).error());
  }
  return {};
}

}  // namespace quern::env
