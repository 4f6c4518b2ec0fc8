// The walk over a text that the static screens of the lanes share.
#include "env/screen/engine.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "env/screen/common_rules.hpp"
#include "env/screen/walk.hpp"

namespace quern::env {
namespace {

using namespace walk;

constexpr std::size_t longest_attribute = 256;  // tokens; keeps nested brackets linear

// __attribute__((a, b(…))) and [[a, ns::b(…)]]: every name in them, arguments left out.
std::optional<screen_finding> screen_attributes(tokens all, std::size_t i, std::size_t& behind) {
  behind = i;
  std::size_t open = i;
  if (rules::is_attribute_word(all[i].text)) {
    open = i + 1;
    if (open + 1 >= all.size() || !is(all[open], "(") || !is(all[open + 1], "("))
      return finding_at(screen_rule::attribute, all[i], "an attribute that cannot be read");
  } else if (!(is(all[i], "[") && i + 1 < all.size() && is(all[i + 1], "["))) {
    return std::nullopt;
  }
  behind = behind_group(all, open, longest_attribute);
  // Half of it in a macro would be read together with something else than the compiler does.
  for (std::size_t at = i + 1; at < behind; ++at)
    if (all[at].directive != all[i].directive || (all[at].directive && all[at].line_start))
      return finding_at(screen_rule::attribute, all[i], "an attribute across preprocessor lines");
  for (std::size_t at = open + 2; at + 2 < behind; ++at) {
    if (is(all[at], "(")) {
      at = behind_group(all, at) - 1;
      continue;
    }
    const bool is_namespace = at + 1 < behind && (is(all[at + 1], "::") || is(all[at + 1], ":"));
    if (!is_word(all[at]) || is_namespace || all[at].text == "using") continue;
    if (!rules::is_known_attribute(all[at].text))
      return finding_at(screen_rule::attribute, all[at],
                        fmt::format("attribute '{}' is not of the list: {}", all[at].text,
                                    rules::attribute_names()));
  }
  return std::nullopt;
}

}  // namespace

namespace engine {

finding common_word(const token& item) {
  if (rules::is_position(item.text))
    return finding_at(screen_rule::position, item,
                      fmt::format("'{}' depends on the layout of the text", item.text));
  if (item.text.starts_with("__builtin_") && !rules::is_known_builtin(item.text))
    return finding_at(screen_rule::forbidden_name, item,
                      fmt::format("'{}' is not one of the built-ins for computing", item.text));
  return std::nullopt;
}

namespace {

// _Pragma("…") at all[i].
finding pragma_operator(tokens all, std::size_t i, const lane_rules& lane) {
  if (i + 3 < all.size() && is(all[i + 1], "(") && all[i + 2].kind == token_kind::string &&
      all[i + 2].text.starts_with('"') && is(all[i + 3], ")")) {
    const std::string inner = all[i + 2].text.substr(1, all[i + 2].text.rfind('"') - 1);
    const auto words = lex_cpp(inner);
    return lane.pragma(all[i], words);
  }
  return finding_at(screen_rule::pragma, all[i], "_Pragma needs a plain string literal");
}

finding any_line(tokens line, const lane_rules& lane) {
  if (line.size() == 1) return std::nullopt;  // a '#' alone is allowed to mean nothing
  if (line[1].text == "pragma") return lane.pragma(line[0], line.subspan(2));
  return lane.line(line);
}

finding any_word(tokens all, std::size_t i, const lane_rules& lane) {
  if (auto found = common_word(all[i])) return found;
  if (all[i].text == "_Pragma") return pragma_operator(all, i, lane);
  return lane.word(all, i);
}

}  // namespace

finding run(std::string_view source, const lane_rules& lane) {
  if (source.size() > max_source_bytes)
    return screen_finding{
        screen_rule::too_long, 1,
        fmt::format("{} bytes; a kernel has at most {}: leave out what it does not use",
                    source.size(), max_source_bytes)};
  const std::vector<token> all = lex_cpp(source);
  const tokens view(all);
  std::optional<screen_finding> first;
  const auto keep = [&](std::optional<screen_finding> next) {
    if (next && (!first || next->line < first->line)) first = std::move(next);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const token& item = all[i];
    if (item.kind == token_kind::other)
      keep(finding_at(screen_rule::malformed_text, item,
                      "a character or literal that C++ does not have"));
    if (item.directive && item.line_start) {
      std::size_t end = i + 1;
      while (end < all.size() && all[end].directive && !all[end].line_start)
        ++end;
      keep(any_line(view.subspan(i, end - i), lane));
    }
    if (is_word(item)) keep(any_word(view, i, lane));
    std::size_t behind = i;
    keep(screen_attributes(view, i, behind));
    if (first && item.line > first->line) break;
  }
  // Brackets of a preprocessor line are no brackets of the program.
  std::vector<token> program;
  std::copy_if(all.begin(), all.end(), std::back_inserter(program),
               [](const token& item) { return !item.directive; });
  keep(lane.declarations(program));
  return first;
}

}  // namespace engine

}  // namespace quern::env
