// The static screen of lane `cpp`: preprocessor lines, words, attributes; declarations are read by
// declarations.cpp.
#include "env/lanes/cpp/screen/cpp_screen.hpp"

#include <span>

#include <fmt/core.h>

#include "env/lanes/cpp/screen/declarations.hpp"
#include "env/lanes/cpp/screen/rules.hpp"
#include "env/screen/common_rules.hpp"
#include "env/screen/engine.hpp"
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

}  // namespace

std::optional<screen_finding> screen_cpp(std::string_view source) {
  static const engine::lane_rules lane{screen_line, screen_word, screen_pragma,
                                       screen_declarations};
  return engine::run(source, lane);
}

}  // namespace quern::env
