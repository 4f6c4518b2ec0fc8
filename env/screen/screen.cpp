// The static screen of lane `cpp`: preprocessor lines, words, attributes; declarations are read by
// declarations.cpp.
#include "env/screen/screen.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include <fmt/core.h>

#include "env/screen/declarations.hpp"
#include "env/screen/engine.hpp"
#include "env/screen/lexer.hpp"
#include "env/screen/rules.hpp"
#include "env/screen/walk.hpp"

namespace quern::env {
namespace {

using namespace walk;

// ---- preprocessor lines

std::optional<screen_finding> screen_include(tokens line) {
  if (line.size() == 3 && line[2].kind == token_kind::header &&
      rules::is_prelude_header(line[2].text))
    return std::nullopt;
  return finding_at(
      screen_rule::include, line[0],
      fmt::format("#include {}: only <{}> may be included (all are there already)",
                  line.size() > 2 ? line[2].text : "", rules::prelude_header_names()));
}

std::optional<screen_finding> screen_pragma(const token& at, tokens words) {
  if (rules::is_known_pragma(words)) return std::nullopt;
  return finding_at(screen_rule::pragma, at,
                    fmt::format("pragma '{}' is not of the list: {}",
                                words.empty() ? "" : words[0].text, rules::pragma_names()));
}

std::optional<screen_finding> screen_define(tokens line) {
  const auto refuse = [&](std::string why) {
    return finding_at(screen_rule::preprocessor, line[0],
                      fmt::format("#define {}: {}; only object-like constants may be defined",
                                  line.size() > 2 ? line[2].text : "", why));
  };
  if (line.size() < 3 || !is_word(line[2])) return refuse("no name");
  const token& name = line[2];
  if (rules::is_reserved_macro_name(name.text)) return refuse("this name has a meaning already");
  if (line.size() > 3 && is(line[3], "(") && line[3].glued) return refuse("it takes parameters");
  int depth = 0;  // half a pair of brackets in a macro would hide what the pair encloses
  for (const token& item : line.subspan(3)) {
    if (rules::is_forbidden_in_constant(item)) return refuse(fmt::format("'{}' in it", item.text));
    if (is(item, "(") || is(item, "[")) ++depth;
    if (is(item, ")") || is(item, "]")) --depth;
    if (depth < 0) break;
  }
  if (depth != 0) return refuse("brackets without their pair");
  return std::nullopt;
}

std::optional<screen_finding> screen_line(tokens line) {
  const std::string& name = line[1].text;
  if (name == "include") return screen_include(line);
  if (name == "define") return screen_define(line);
  return finding_at(
      screen_rule::preprocessor, line[0],
      fmt::format("#{}: only #include of the prelude's headers, #pragma and #define of "
                  "constants are allowed",
                  name));
}

// ---- words that are refused wherever they stand

std::optional<screen_finding> screen_word(tokens all, std::size_t i) {
  const token& item = all[i];
  const std::string& text = item.text;
  if (rules::is_assembler(text))
    return finding_at(screen_rule::assembler, item, fmt::format("'{}' is not allowed", text));
  if (rules::is_forbidden_name(text))
    return finding_at(screen_rule::forbidden_name, item,
                      fmt::format("'{}': a kernel computes; it has no processes, threads, files, "
                                  "signals or clocks",
                                  text));
  if (rules::is_forbidden_call(text) && i + 1 < all.size() && is(all[i + 1], "("))
    return finding_at(screen_rule::forbidden_name, item,
                      fmt::format("'{}' is called: a kernel only computes", text));
  if (text == "std" && i + 2 < all.size() && is(all[i + 1], "::") &&
      rules::is_forbidden_in_std(all[i + 2].text))
    return finding_at(screen_rule::forbidden_name, item,
                      fmt::format("'std::{}' is not allowed in a kernel", all[i + 2].text));
  return std::nullopt;
}

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

std::string_view name_of(screen_rule rule) {
  constexpr std::string_view names[] = {
      "too_long",       "include",      "preprocessor", "pragma",         "assembler",
      "external",       "attribute",    "kept_pointer", "forbidden_name", "position",
      "malformed_text", "device_state", "device_launch"};
  return names[static_cast<std::size_t>(rule)];
}

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

std::optional<screen_finding> static_screen(std::string_view source) {
  static const engine::lane_rules lane{screen_line, screen_word, screen_pragma,
                                       screen_declarations};
  return engine::run(source, lane);
}

}  // namespace quern::env
