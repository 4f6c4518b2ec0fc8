// The rules that the head of a task has to keep, whatever made it.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "env/task/task.hpp"

namespace quern::env {

namespace {

template <class... Args>
tl::unexpected<base::error> refuse_task(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::errc::invalid_argument, format, std::forward<Args>(args)...);
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
  return check_block("reference", what.reference);
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
  if (text.size() > max_block_bytes) {
    return refuse_task("{} text has {} bytes, at most {} are allowed", which, text.size(),
                       max_block_bytes);
  }
  const auto bad = std::find_if(text.begin(), text.end(), [](char c) {
    return (c < ' ' && c != '\n' && c != '\t') || c > '~';
  });
  if (bad != text.end()) {
    return refuse_task("{} text has the byte {:#04x} in line {}: use printable ASCII only", which,
                       static_cast<unsigned char>(*bad), 1 + std::count(text.begin(), bad, '\n'));
  }
  return {};
}

base::status validate(const task& what) {
  if (auto checked = check_all(what); !checked) {
    return base::in_context(fmt::format("task '{}'", what.name), std::move(checked).error());
  }
  return {};
}

}  // namespace quern::env
