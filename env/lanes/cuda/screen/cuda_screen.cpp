// The static screen of lane `cuda`: preprocessor lines and words; what depends on where it stands
// is read by cuda_scopes.cpp.
#include "env/lanes/cuda/screen/cuda_screen.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "env/lanes/cuda/screen/cuda_prelude.hpp"
#include "env/lanes/cuda/screen/cuda_rules.hpp"
#include "env/lanes/cuda/screen/cuda_scopes.hpp"
#include "env/screen/common_rules.hpp"
#include "env/screen/engine.hpp"
#include "env/screen/walk.hpp"

namespace quern::env {
namespace {

using namespace walk;

constexpr std::size_t longest_statement = 1024;  // tokens of one assembler text

engine::finding cuda_include(tokens line, const cuda_screen_policy& policy) {
  if (line.size() == 3 && line[2].kind == token_kind::header && line[2].text.size() > 2 &&
      is_cuda_header(std::string_view(line[2].text).substr(1, line[2].text.size() - 2),
                     policy.library_calls))
    return std::nullopt;
  std::string names;
  for (const auto name : cuda_headers())
    names +=
        fmt::format("{}<{}{}>", names.empty() ? "" : ", ", name, name.ends_with('/') ? "…" : "");
  return finding_at(screen_rule::include, line[0],
                    fmt::format("#include {}: only {} may be included",
                                line.size() > 2 ? line[2].text : "", names));
}

engine::finding cuda_define(tokens line) {
  const auto refuse = [&](std::string why) {
    return finding_at(screen_rule::preprocessor, line[0],
                      fmt::format("#define {}: {}", line.size() > 2 ? line[2].text : "", why));
  };
  if (line.size() < 3 || !is_word(line[2])) return refuse("no name");
  if (cuda_rules::is_reserved_macro_name(line[2].text))
    return refuse("this name has a meaning already");
  std::size_t begin = 3;
  if (line.size() > 3 && is(line[3], "(") && line[3].glued) begin = behind_group(line, 3);
  int depth = 0;
  bool declares = false, ends_statement = false;
  for (const token& item : line.subspan(begin)) {
    // Pasted words and texts made of words would be seen by nobody but the compiler.
    if (is(item, "#") || is(item, "##")) return refuse("'#' and '##' are not allowed in a macro");
    if (is(item, "(") || is(item, "[") || is(item, "{")) ++depth;
    if (is(item, ")") || is(item, "]") || is(item, "}")) --depth;
    if (depth < 0) break;
    declares = declares || item.text == "__device__" || item.text == "extern" ||
               item.text == "__constant__" || item.text == "namespace" || item.text == "static" ||
               item.text == "__global__";
    ends_statement = ends_statement || is(item, ";") || is(item, "=") || is(item, "{");
  }
  if (depth != 0) return refuse("brackets without their pair");
  if (declares && ends_statement) return refuse("a declaration may not hide in a macro");
  return std::nullopt;
}

engine::finding cuda_line(tokens line, const cuda_screen_policy& policy) {
  const std::string& name = line[1].text;
  if (name == "include") return cuda_include(line, policy);
  if (name == "define") return cuda_define(line);
  for (const char* allowed : {"if", "ifdef", "ifndef", "elif", "else", "endif", "error"})
    if (name == allowed) return std::nullopt;
  if (name == "undef" && line.size() > 2 && !cuda_rules::is_reserved_macro_name(line[2].text))
    return std::nullopt;
  return finding_at(screen_rule::preprocessor, line[0],
                    fmt::format("#{}: only #include, #define, #undef, #pragma and conditionals are "
                                "allowed",
                                name));
}

engine::finding cuda_pragma(const token& at, tokens words) {
  if (cuda_rules::is_known_pragma(words)) return std::nullopt;
  return finding_at(screen_rule::pragma, at,
                    fmt::format("pragma '{}' is not of the list: {}",
                                words.empty() ? "" : words[0].text, cuda_rules::pragma_names()));
}

// What stands between the quotes; nothing where an escape could spell what is not written.
std::optional<std::string> plain_content(const std::string& literal) {
  if (literal.starts_with("R\"")) {
    const std::size_t open = literal.find('(');
    const std::size_t close = literal.rfind(')');
    return literal.substr(open + 1, close - open - 1);
  }
  if (!literal.starts_with('"') || literal.back() != '"') return std::nullopt;
  std::string text;
  for (std::size_t i = 1; i + 1 < literal.size(); ++i) {
    if (literal[i] != '\\') {
      text += literal[i];
      continue;
    }
    const char next = literal[++i];
    if (next == 'n')
      text += '\n';
    else if (next == 't' || next == 'r')
      text += ' ';
    else if (next == '"' || next == '\\')
      text += next;
    else
      return std::nullopt;
  }
  return text;
}

engine::finding cuda_assembler(tokens all, std::size_t i) {
  const auto refuse = [&](std::string why) {
    return finding_at(screen_rule::assembler, all[i], std::move(why));
  };
  std::size_t at = i + 1;
  while (at < all.size() && (all[at].text == "volatile" || all[at].text == "__volatile__"))
    ++at;
  if (at >= all.size() || !is(all[at], "(")) return refuse("assembler that cannot be read");
  std::string text;
  const std::size_t end = std::min(all.size(), at + longest_statement);
  for (++at; at < end && !is(all[at], ":") && !is(all[at], "::") && !is(all[at], ")"); ++at) {
    const auto part = all[at].kind == token_kind::string ? plain_content(all[at].text)
                                                         : std::optional<std::string>();
    if (!part) return refuse("the text of assembler has to be plain string literals");
    text += *part;
  }
  if (at >= end) return refuse("assembler that does not end");
  if (const std::string word = cuda_rules::forbidden_in_ptx(text); !word.empty())
    return refuse(fmt::format(
        "'{}' in assembler: only PTX instructions with a type (mov.u32, …) and .reg are "
        "allowed; clocks, traps, calls, sleeping and data have no place in a kernel",
        word));
  return std::nullopt;
}

engine::finding cuda_word(tokens all, std::size_t i, const cuda_screen_policy& policy) {
  const token& item = all[i];
  if (rules::is_assembler(item.text)) return cuda_assembler(all, i);
  const bool called = i + 1 < all.size() && is(all[i + 1], "(");
  // A member of that name is somebody's own; the library's have no object before them.
  const bool member = i > 0 && (is(all[i - 1], ".") || is(all[i - 1], "->"));
  const auto why = cuda_rules::why_forbidden(item.text, called && !member, policy);
  if (!why.empty())
    return finding_at(screen_rule::forbidden_name, item, fmt::format("'{}': {}", item.text, why));
  if (item.text == "std" && i + 2 < all.size() && is(all[i + 1], "::") &&
      rules::is_forbidden_in_std(all[i + 2].text))
    return finding_at(screen_rule::forbidden_name, item,
                      fmt::format("'std::{}' is not allowed in a candidate", all[i + 2].text));
  return std::nullopt;
}

// Branches that open and close different brackets would be read as another program than the one
// that is compiled.
engine::finding unbalanced_branches(tokens all) {
  std::vector<int> at_branch;
  int depth = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const token& item = all[i];
    if (!item.directive) {
      if (is(item, "(") || is(item, "[") || is(item, "{")) ++depth;
      if (is(item, ")") || is(item, "]") || is(item, "}")) --depth;
      continue;
    }
    if (!item.line_start || i + 1 >= all.size()) continue;
    const std::string& name = all[i + 1].text;
    if (name == "if" || name == "ifdef" || name == "ifndef") at_branch.push_back(depth);
    if (name != "elif" && name != "else" && name != "endif") continue;
    if (at_branch.empty() || at_branch.back() != depth)
      return finding_at(screen_rule::preprocessor, item,
                        "a branch of a conditional has brackets without their pair");
    if (name == "endif") at_branch.pop_back();
  }
  return std::nullopt;
}

// What places a function must be the same in both passes of the compiler, of which only one defines
// __CUDA_ARCH__: else device code to us is host code to the host's compiler. So no branch of a
// conditional places what stands behind it, and none defines a word that does.
engine::finding placed_by_branches(tokens all) {
  int conditionals = 0, brackets = 0;
  // The word that places, in a branch, until its declaration has ended, and where that was.
  const token* first = nullptr;
  int its_brackets = 0;
  bool body_ended = false;        // with the last token
  const token* before = nullptr;  // a branch that ended with the body of what it had placed
  const auto refuse = [](const token& at) {
    return finding_at(
        screen_rule::preprocessor, at,
        fmt::format("'{}' in a branch of a conditional: its declaration has to end in "
                    "that branch, too",
                    at.text));
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const token& item = all[i];
    if (item.directive) {
      if (!item.line_start || i + 1 >= all.size()) continue;
      const std::string& name = all[i + 1].text;
      const bool opens = name == "if" || name == "ifdef" || name == "ifndef";
      const bool ends = name == "elif" || name == "else" || name == "endif";
      conditionals += opens ? 1 : name == "endif" && conditionals > 0 ? -1 : 0;
      if ((!opens && !ends) || first == nullptr || brackets > its_brackets) continue;
      if (!body_ended) return refuse(*first);
      before = std::exchange(first, nullptr);
      continue;
    }
    if (before != nullptr && !is_word(item) && !is(item, ";") && !is(item, "}"))
      return refuse(*before);
    before = nullptr;
    if (body_ended && is_word(item)) first = nullptr;
    body_ended = false;
    if (is(item, "(") || is(item, "[") || is(item, "{")) ++brackets;
    if (is(item, ")") || is(item, "]") || is(item, "}")) --brackets;
    if (brackets <= its_brackets && is(item, ";")) first = nullptr;
    body_ended = brackets <= its_brackets && is(item, "}");
    if (first == nullptr && conditionals > 0 && cuda_rules::is_place(item.text)) {
      first = &item;
      its_brackets = brackets;
    }
  }
  return std::nullopt;
}

// The same for macros: a word that places is defined once, outside of conditionals, and stays.
engine::finding placed_by_macros(tokens all, const specifier_macros& macros) {
  std::map<std::string, int> defined;
  int depth = 0;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    if (!all[i].directive || !all[i].line_start) continue;
    const std::string& name = all[i + 1].text;
    if (name == "if" || name == "ifdef" || name == "ifndef") ++depth;
    if (name == "endif" && depth > 0) --depth;
    if ((name != "define" && name != "undef") || i + 2 >= all.size()) continue;
    const auto macro = macros.find(all[i + 2].text);
    if (macro == macros.end() ||
        std::none_of(macro->second.begin(), macro->second.end(),
                     [](const std::string& word) { return cuda_rules::is_place(word); }))
      continue;
    if (depth > 0 || name == "undef" || ++defined[macro->first] > 1)
      return finding_at(screen_rule::preprocessor, all[i],
                        fmt::format("#{} {}: a macro of {} is defined once, outside of "
                                    "conditionals: the compiler for the host has to read it as the "
                                    "one for the device does",
                                    name, macro->first, *macro->second.begin()));
  }
  return std::nullopt;
}

specifier_macros find_specifier_macros(tokens all) {
  specifier_macros found;
  for (std::size_t i = 0; i + 2 < all.size(); ++i) {
    if (!all[i].directive || !all[i].line_start || all[i + 1].text != "define") continue;
    const std::string& name = all[i + 2].text;
    for (std::size_t at = i + 3; at < all.size() && all[at].directive && !all[at].line_start;
         ++at) {
      if (cuda_rules::is_specifier(all[at].text)) found[name].insert(all[at].text);
      // A macro of macros.
      if (const auto other = found.find(all[at].text);
          other != found.end() && other->first != name) {
        const auto words = other->second;
        found[name].insert(words.begin(), words.end());
      }
    }
  }
  return found;
}

}  // namespace

std::optional<screen_finding> screen_cuda(std::string_view source,
                                          const cuda_screen_policy& policy) {
  engine::finding branches;
  specifier_macros macros;
  if (source.size() <= max_source_bytes) {
    const auto all = lex_cpp(source);
    branches = unbalanced_branches(all);
    macros = find_specifier_macros(all);
    if (!branches) branches = placed_by_branches(all);
    if (!branches) branches = placed_by_macros(all, macros);
  }
  const engine::lane_rules lane{
      [&](tokens line) { return cuda_line(line, policy); },
      [&](tokens all, std::size_t i) { return cuda_word(all, i, policy); }, cuda_pragma,
      [&](tokens program) { return screen_cuda_scopes(program, macros); }};
  auto found = engine::run(source, lane);
  if (branches && (!found || branches->line < found->line)) return branches;
  return found;
}

}  // namespace quern::env
