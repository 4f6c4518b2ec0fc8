// The static screen of lane `cpp`: walks the tokens once, line by line for the preprocessor and
// declaration by declaration for what stands at namespace scope.
#include "env/screen/screen.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include <fmt/core.h>

#include "env/screen/lexer.hpp"
#include "env/screen/rules.hpp"

namespace quern::env {
namespace {

using tokens = std::span<const token>;

bool is(const token& item, std::string_view text) {
  return item.text == text && item.kind != token_kind::string && item.kind != token_kind::character;
}

bool is_word(const token& item) {
  return item.kind == token_kind::identifier;
}

screen_finding finding(screen_rule rule, const token& at, std::string text) {
  return {rule, at.line, std::move(text)};
}

// Index behind the bracket that closes the one at `open` (or the end, or where `longest` is over).
std::size_t behind_group(tokens all, std::size_t open, std::size_t longest = max_source_bytes) {
  int depth = 0;
  const std::size_t end = std::min(all.size(), open + longest);
  for (std::size_t i = open; i < end; ++i) {
    const std::string& text = all[i].text;
    if (all[i].kind != token_kind::punctuator) continue;
    if (text == "(" || text == "[" || text == "{") ++depth;
    if (text == ")" || text == "]" || text == "}") --depth;
    if (depth == 0) return i + 1;
  }
  return end;
}

// ---- preprocessor lines

std::optional<screen_finding> screen_include(tokens line) {
  if (line.size() == 3 && line[2].kind == token_kind::header &&
      rules::is_prelude_header(line[2].text))
    return std::nullopt;
  return finding(screen_rule::include, line[0],
                 fmt::format("#include {}: only <{}> may be included (all are there already)",
                             line.size() > 2 ? line[2].text : "", rules::prelude_header_names()));
}

std::optional<screen_finding> screen_pragma(const token& at, tokens words) {
  if (rules::is_known_pragma(words)) return std::nullopt;
  return finding(screen_rule::pragma, at,
                 fmt::format("pragma '{}' is not of the list: {}",
                             words.empty() ? "" : words[0].text, rules::pragma_names()));
}

std::optional<screen_finding> screen_define(tokens line) {
  const auto refuse = [&](std::string why) {
    return finding(screen_rule::preprocessor, line[0],
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
  if (line.size() == 1) return std::nullopt;  // a '#' alone is allowed to mean nothing
  const std::string& name = line[1].text;
  if (name == "include") return screen_include(line);
  if (name == "pragma") return screen_pragma(line[0], line.subspan(2));
  if (name == "define") return screen_define(line);
  return finding(screen_rule::preprocessor, line[0],
                 fmt::format("#{}: only #include of the prelude's headers, #pragma and #define of "
                             "constants are allowed",
                             name));
}

// ---- words that are refused wherever they stand

std::optional<screen_finding> screen_word(tokens all, std::size_t i) {
  const token& item = all[i];
  const std::string& text = item.text;
  if (rules::is_assembler(text))
    return finding(screen_rule::assembler, item, fmt::format("'{}' is not allowed", text));
  if (rules::is_position(text))
    return finding(screen_rule::position, item,
                   fmt::format("'{}' depends on the layout of the text", text));
  if (text.starts_with("__builtin_") && !rules::is_known_builtin(text))
    return finding(screen_rule::forbidden_name, item,
                   fmt::format("'{}' is not one of the built-ins for computing", text));
  if (rules::is_forbidden_name(text))
    return finding(screen_rule::forbidden_name, item,
                   fmt::format("'{}': a kernel computes; it has no processes, threads, files, "
                               "signals or clocks",
                               text));
  if (rules::is_forbidden_call(text) && i + 1 < all.size() && is(all[i + 1], "("))
    return finding(screen_rule::forbidden_name, item,
                   fmt::format("'{}' is called: a kernel only computes", text));
  if (text == "std" && i + 2 < all.size() && is(all[i + 1], "::") &&
      rules::is_forbidden_in_std(all[i + 2].text))
    return finding(screen_rule::forbidden_name, item,
                   fmt::format("'std::{}' is not allowed in a kernel", all[i + 2].text));
  if (text == "_Pragma") {
    if (i + 3 < all.size() && is(all[i + 1], "(") && all[i + 2].kind == token_kind::string &&
        all[i + 2].text.starts_with('"') && is(all[i + 3], ")")) {
      std::string inner = all[i + 2].text.substr(1, all[i + 2].text.rfind('"') - 1);
      const auto words = lex_cpp(inner);
      return screen_pragma(item, words);
    }
    return finding(screen_rule::pragma, item, "_Pragma needs a plain string literal");
  }
  return std::nullopt;
}

constexpr std::size_t longest_attribute = 256;  // tokens; keeps nested brackets linear
constexpr std::size_t longest_declarator = 512;
constexpr int deepest_scope = 64;

// __attribute__((a, b(…))) and [[a, ns::b(…)]]: every name in them, arguments left out.
std::optional<screen_finding> screen_attributes(tokens all, std::size_t i, std::size_t& behind) {
  behind = i;
  std::size_t open = i;
  if (rules::is_attribute_word(all[i].text)) {
    open = i + 1;
    if (open + 1 >= all.size() || !is(all[open], "(") || !is(all[open + 1], "("))
      return finding(screen_rule::attribute, all[i], "an attribute that cannot be read");
  } else if (!(is(all[i], "[") && i + 1 < all.size() && is(all[i + 1], "["))) {
    return std::nullopt;
  }
  behind = behind_group(all, open, longest_attribute);
  // Half of it in a macro would be read together with something else than the compiler does.
  for (std::size_t at = i + 1; at < behind; ++at)
    if (all[at].directive != all[i].directive || (all[at].directive && all[at].line_start))
      return finding(screen_rule::attribute, all[i], "an attribute across preprocessor lines");
  for (std::size_t at = open + 2; at + 2 < behind; ++at) {
    if (is(all[at], "(")) {
      at = behind_group(all, at) - 1;
      continue;
    }
    const bool is_namespace = at + 1 < behind && (is(all[at + 1], "::") || is(all[at + 1], ":"));
    if (!is_word(all[at]) || is_namespace || all[at].text == "using") continue;
    if (!rules::is_known_attribute(all[at].text))
      return finding(screen_rule::attribute, all[at],
                     fmt::format("attribute '{}' is not of the list: {}", all[at].text,
                                 rules::attribute_names()));
  }
  return std::nullopt;
}

// ---- declarations

// One declaration at namespace scope or one that begins with static, without its body or
// initialiser and without attributes: what its words say.
struct declaration {
  bool is_extern = false, is_static = false, is_const_object = false, is_function = false,
       is_template_or_type = false, has_pointer = false;
  std::string name;  // the function's, where it is one
  const token* at = nullptr;
};

// Whether the object itself cannot change: constexpr, or const behind the last '*' (or, where there
// is no '*', anywhere).
declaration read_declaration(tokens all) {
  declaration result;
  if (!all.empty()) result.at = &all[0];
  bool const_since_pointer = false;
  bool is_constexpr = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& text = all[i].text;
    if (rules::is_attribute_word(text) || text == "alignas" || text == "decltype" ||
        text == "noexcept") {
      if (i + 1 < all.size() && is(all[i + 1], "(")) i = behind_group(all, i + 1) - 1;
      continue;
    }
    if (is(all[i], "[")) {  // an attribute or the size of an array
      i = behind_group(all, i) - 1;
      continue;
    }
    if (text == "extern") result.is_extern = true;
    if (text == "static" || text == "thread_local" || text == "__thread") result.is_static = true;
    if (text == "constexpr") is_constexpr = true;
    if (text == "const") const_since_pointer = true;
    if (text == "operator") {
      result.is_function = true;
      break;
    }
    if (rules::begins_other_declaration(text)) result.is_template_or_type = true;
    if (is(all[i], "*")) {
      result.has_pointer = true;
      const_since_pointer = false;
    }
    if (is(all[i], "(")) {
      // T (*name)(…): a pointer to function; else a name before it makes it a function.
      const bool inner_pointer = i + 1 < all.size() && is(all[i + 1], "*");
      if (inner_pointer) {
        result.has_pointer = true;
        const_since_pointer = i + 2 < all.size() && is(all[i + 2], "const");
      } else if (i > 0 && is_word(all[i - 1])) {
        result.is_function = true;
        result.name = all[i - 1].text;
      }
      break;
    }
  }
  result.is_const_object = is_constexpr || const_since_pointer;
  return result;
}

bool is_entry(const std::string& name) {
  return name == "kernel" || name == "workspace_bytes";
}

class declarations {
 public:
  explicit declarations(tokens all) : all_(all) {}

  std::optional<screen_finding> screen() {
    scope(0, false);
    return found_;
  }

 private:
  // From `at` at namespace scope to the brace that closes it; returns the index behind it.
  std::size_t scope(std::size_t at, bool c_linkage) {
    while (at < all_.size() && !found_) {
      if (is(all_[at], "}")) return at + 1;
      if (is(all_[at], ";")) {
        ++at;
        continue;
      }
      at = one(at, c_linkage);
    }
    return all_.size();
  }

  // One declaration beginning at `at`; the index behind it.
  std::size_t one(std::size_t at, bool c_linkage) {
    const std::size_t begin = at;
    std::vector<token> head;  // up to the body or initialiser
    bool initialised = false;
    for (; at < all_.size() && !found_; ++at) {
      const token& item = all_[at];
      if (is(item, ";")) break;
      if (is(item, "{")) {
        if (const auto inner = opens_scope(head)) {
          if (++depth_ > deepest_scope) {
            found_ = finding(screen_rule::malformed_text, item, "scopes nested too deeply");
            return all_.size();
          }
          const std::size_t behind = scope(at + 1, c_linkage || *inner);
          --depth_;
          return behind;
        }
        locals(at + 1, behind_group(all_, at));
        at = behind_group(all_, at) - 1;
        // A body ends a function; braces of a type or an initialiser go on to the ';'.
        if (!initialised && read_declaration(head).is_function) {
          judge(head, c_linkage, true, false, begin);
          return at + 1;
        }
        initialised = true;
        continue;
      }
      if (is(item, "(") || is(item, "[")) {
        const std::size_t behind = behind_group(all_, at);
        if (!initialised)
          head.insert(head.end(), all_.begin() + static_cast<std::ptrdiff_t>(at),
                      all_.begin() + static_cast<std::ptrdiff_t>(behind));
        locals(at + 1, behind);
        at = behind - 1;
        continue;
      }
      if (is(item, "}")) {  // closes the scope: leave it to the caller
        judge(head, c_linkage, false, initialised, begin);
        return at;
      }
      if (is(item, "=")) initialised = true;
      if (!initialised) head.push_back(item);
    }
    judge(head, c_linkage, false, initialised, begin);
    return at + 1;
  }

  // `namespace x {`, `inline namespace {`: false; `extern "C" {`: true; else none.
  static std::optional<bool> opens_scope(const std::vector<token>& head) {
    if (head.size() == 2 && head[0].text == "extern" && head[1].kind == token_kind::string)
      return true;
    for (std::size_t i = 0; i < head.size() && i < 2; ++i)
      if (head[i].text == "namespace") return false;
    return std::nullopt;
  }

  void judge(const std::vector<token>& head, bool c_linkage, bool defined, bool initialised,
             std::size_t begin) {
    if (head.empty() || found_) return;
    const declaration what = read_declaration(head);
    if (what.is_extern || c_linkage) {
      const bool entry = what.is_function && is_entry(what.name);
      // `F socket;` with F a function type declares a function too: only what is certainly
      // defined here is ours.
      const bool object = !what.is_extern && what.is_const_object && initialised;
      const bool own = (defined && what.is_function) || object ||
                       (!what.is_extern && (what.is_static || what.is_template_or_type));
      if (!entry && !own) {
        found_ = finding(screen_rule::external, all_[begin],
                         "only kernel and workspace_bytes may be declared extern");
        return;
      }
    }
    if (what.is_template_or_type || what.is_function) return;
    kept_pointer(what, all_[begin]);
  }

  void kept_pointer(const declaration& what, const token& at) {
    if (found_ || !what.has_pointer || what.is_const_object || what.is_function) return;
    found_ =
        finding(screen_rule::kept_pointer, at,
                "a pointer that outlives the call; inputs and outputs of a call are gone after "
                "it. Make it local or const");
  }

  // static and thread_local variables inside functions, extern declarations anywhere.
  void locals(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end && !found_; ++i) {
      const std::string& text = all_[i].text;
      if (!is_word(all_[i])) continue;
      if (text == "extern") {
        found_ = finding(screen_rule::external, all_[i],
                         "only kernel and workspace_bytes may be declared extern");
        return;
      }
      if (text != "static" && text != "thread_local" && text != "__thread") continue;
      std::size_t stop = i;
      const std::size_t last = std::min(end, i + longest_declarator);
      while (stop < last && !is(all_[stop], ";") && !is(all_[stop], "=") && !is(all_[stop], "{"))
        ++stop;
      const declaration what = read_declaration(all_.subspan(i, stop - i));
      if (!what.is_template_or_type) kept_pointer(what, all_[i]);
    }
  }

  tokens all_;
  int depth_ = 0;
  std::optional<screen_finding> found_;
};

}  // namespace

std::string_view name_of(screen_rule rule) {
  constexpr std::string_view names[] = {
      "too_long",  "include",      "preprocessor",   "pragma",   "assembler",     "external",
      "attribute", "kept_pointer", "forbidden_name", "position", "malformed_text"};
  return names[static_cast<std::size_t>(rule)];
}

std::optional<screen_finding> static_screen(std::string_view source) {
  if (source.size() > max_source_bytes)
    return screen_finding{
        screen_rule::too_long, 1,
        fmt::format("{} bytes; a kernel has at most {}", source.size(), max_source_bytes)};
  const std::vector<token> all = lex_cpp(source);
  const tokens view(all);
  std::optional<screen_finding> first;
  const auto keep = [&](std::optional<screen_finding> next) {
    if (next && (!first || next->line < first->line)) first = std::move(next);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const token& item = all[i];
    if (item.kind == token_kind::other)
      keep(finding(screen_rule::malformed_text, item,
                   "a character or literal that C++ does not have"));
    if (item.directive && item.line_start) {
      std::size_t end = i + 1;
      while (end < all.size() && all[end].directive && !all[end].line_start)
        ++end;
      keep(screen_line(view.subspan(i, end - i)));
    }
    if (is_word(item)) keep(screen_word(view, i));
    std::size_t behind = i;
    keep(screen_attributes(view, i, behind));
    if (first && item.line > first->line) break;
  }
  // Brackets of a preprocessor line are no brackets of the program.
  std::vector<token> program;
  std::copy_if(all.begin(), all.end(), std::back_inserter(program),
               [](const token& item) { return !item.directive; });
  keep(declarations(program).screen());
  return first;
}

}  // namespace quern::env
