// Places of tokens, directives, and the expansion of macros.
#include "env/lanes/cuda/launch/tokens.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace quern::env::plan {
namespace {

constexpr int deepest_macro = 64;

struct macro {
  bool with_arguments = false;
  bool refused = false;  // #, ## or ...
  bool active = false;   // being expanded
  std::vector<std::string> parameters;
  std::vector<plan_token> body;
};

// Tokens of the whole file, directives still among them.
struct raw_token {
  plan_token token;
  bool directive = false;
  bool line_start = false;
};

std::vector<raw_token> locate(std::string_view source) {
  const std::string_view text = base::without_byte_order_mark(source);
  const std::size_t skipped = source.size() - text.size();
  std::vector<raw_token> located;
  std::size_t line_begin = 0;
  std::size_t at = 0;
  std::uint32_t line = 1;
  for (token& one : lex_cpp(text)) {
    for (; at < one.begin; ++at) {
      if (text[at] != '\n') continue;
      ++line;
      line_begin = at + 1;
    }
    raw_token made;
    made.directive = one.directive;
    made.line_start = one.line_start;
    made.token.kind = one.kind;
    made.token.glued = one.glued;
    made.token.line = line;
    made.token.column = static_cast<std::uint32_t>(one.begin - line_begin + 1);
    made.token.begin = one.begin + skipped;
    made.token.end = one.end + skipped;
    made.token.text = std::move(one.text);
    const bool punctuator = one.kind == token_kind::punctuator;
    if (punctuator && made.token.text == "<" && one.glued && !located.empty() &&
        located.back().token.text == "<<" && located.back().directive == one.directive) {
      located.back().token.text = "<<<";
      located.back().token.end = made.token.end;
      continue;
    }
    if (punctuator && made.token.text == ">>") {
      made.token.text = ">";
      raw_token second = made;
      second.line_start = false;
      second.token.glued = true;
      ++second.token.column;
      located.push_back(std::move(made));
      located.push_back(std::move(second));
      continue;
    }
    located.push_back(std::move(made));
  }
  return located;
}

class expander {
 public:
  explicit expander(std::vector<raw_token> raw) : raw_(std::move(raw)) {}

  tl::expected<token_list, plan_error> run();

 private:
  void read_directive(std::size_t begin, std::size_t end);
  void read_define(std::size_t begin, std::size_t end);
  void expand(const std::vector<plan_token>& in, std::vector<plan_token>& out, int depth);
  // Expands the macro named at in[at]; returns the first token behind its use.
  std::size_t use(macro& what, const std::vector<plan_token>& in, std::size_t at,
                  std::vector<plan_token>& out, int depth);
  std::optional<std::vector<std::vector<plan_token>>> arguments_of(
      const std::vector<plan_token>& in, std::size_t open, std::size_t& behind);
  void fail(const plan_token& at, std::string text) {
    if (!error_) error_ = plan_error{at.line, at.column, std::move(text)};
  }

  std::vector<raw_token> raw_;
  std::map<std::string, macro, std::less<>> macros_;
  token_list result_;
  std::size_t made_ = 0;
  int expansions_ = 0;
  std::optional<plan_error> error_;
};

void expander::read_define(std::size_t begin, std::size_t end) {
  if (begin >= end || raw_[begin].token.kind != token_kind::identifier) {
    return fail(raw_[begin - 1].token, "#define without a name");
  }
  macro made;
  std::size_t at = begin + 1;
  if (at < end && raw_[at].token.text == "(" && raw_[at].token.glued) {
    made.with_arguments = true;
    for (++at; at < end && raw_[at].token.text != ")"; ++at) {
      if (raw_[at].token.text == "...") made.refused = true;
      if (raw_[at].token.kind == token_kind::identifier)
        made.parameters.push_back(raw_[at].token.text);
    }
    ++at;
  }
  for (; at < end; ++at) {
    if (raw_[at].token.text == "#" || raw_[at].token.text == "##") made.refused = true;
    made.body.push_back(raw_[at].token);
  }
  macros_[raw_[begin].token.text] = std::move(made);
}

void expander::read_directive(std::size_t begin, std::size_t end) {
  const plan_token& sign = raw_[begin].token;
  if (begin + 1 >= end) return;  // a lone '#' does nothing
  const std::string& name = raw_[begin + 1].token.text;
  result_.directives.push_back({name, sign.line, sign.column, sign.begin});
  if (name == "define") {
    read_define(begin + 2, end);
  } else if (name == "undef") {
    if (begin + 2 < end) macros_.erase(raw_[begin + 2].token.text);
  } else if (name != "include" && name != "pragma") {
    fail(sign,
         fmt::format("'#{}': allowed directives are #include, #define, #undef and #pragma", name));
  }
}

std::optional<std::vector<std::vector<plan_token>>> expander::arguments_of(
    const std::vector<plan_token>& in, std::size_t open, std::size_t& behind) {
  std::vector<std::vector<plan_token>> found(1);
  int depth = 0;
  for (std::size_t at = open; at < in.size(); ++at) {
    const std::string& text = in[at].text;
    const bool opens = text == "(" || text == "[" || text == "{";
    const bool closes = text == ")" || text == "]" || text == "}";
    if (closes && --depth == 0) {
      behind = at + 1;
      return found;
    }
    // Only parentheses protect a comma, but brackets and braces must balance too in what follows.
    if (text == "," && depth == 1) {
      found.emplace_back();
    } else if (depth > 0) {
      found.back().push_back(in[at]);
    }
    if (opens) ++depth;
  }
  return std::nullopt;
}

std::size_t expander::use(macro& what, const std::vector<plan_token>& in, std::size_t at,
                          std::vector<plan_token>& out, int depth) {
  const plan_token& name = in[at];
  if (++expansions_ > plan_limits::macro_expansions || depth > deepest_macro) {
    fail(name, fmt::format("macro '{}': more than {} expansions, or nested deeper than {}",
                           name.text, plan_limits::macro_expansions, deepest_macro));
    return in.size();
  }
  std::size_t behind = at + 1;
  std::vector<std::vector<plan_token>> arguments;
  if (what.with_arguments) {
    std::optional<std::vector<std::vector<plan_token>>> written;
    if (behind < in.size() && in[behind].text == "(") written = arguments_of(in, behind, behind);
    if (!written) {
      out.push_back(name);
      return at + 1;
    }
    if (what.parameters.empty() && written->size() == 1 && written->front().empty())
      written->clear();
    if (written->size() != what.parameters.size()) {
      fail(name, fmt::format("macro '{}' has {} parameters, found {}", name.text,
                             what.parameters.size(), written->size()));
      return in.size();
    }
    for (const auto& one : *written) {
      arguments.emplace_back();
      expand(one, arguments.back(), depth + 1);
    }
  }
  std::vector<plan_token> replaced;
  for (const plan_token& one : what.body) {
    const auto parameter = std::find(what.parameters.begin(), what.parameters.end(), one.text) -
                           what.parameters.begin();
    const bool is_parameter = what.with_arguments && one.kind == token_kind::identifier &&
                              parameter < static_cast<std::ptrdiff_t>(what.parameters.size());
    if (is_parameter) {
      const auto& given = arguments[static_cast<std::size_t>(parameter)];
      replaced.insert(replaced.end(), given.begin(), given.end());
      made_ += given.size();
    } else {
      replaced.push_back(one);
    }
    made_ += 1;
    if (made_ > plan_limits::tokens) {
      fail(name, fmt::format("more than {} tokens with macros expanded", plan_limits::tokens));
      return in.size();
    }
  }
  for (plan_token& one : replaced) {
    one.line = name.line;
    one.column = name.column;
    one.begin = name.begin;
    one.end = name.end;
    one.from_macro = true;
  }
  if (!replaced.empty()) replaced.front().glued = false;
  what.active = true;
  expand(replaced, out, depth + 1);
  what.active = false;
  return behind;
}

void expander::expand(const std::vector<plan_token>& in, std::vector<plan_token>& out, int depth) {
  for (std::size_t at = 0; at < in.size() && !error_;) {
    const auto found = in[at].kind == token_kind::identifier && !in[at].painted
                           ? macros_.find(in[at].text)
                           : macros_.end();
    if (found == macros_.end() || found->second.refused || found->second.active) {
      out.push_back(in[at]);
      out.back().painted = in[at].painted || (found != macros_.end() && found->second.active);
      ++at;
    } else {
      at = use(found->second, in, at, out, depth);
    }
    if (out.size() > plan_limits::tokens) {
      fail(in[0], fmt::format("more than {} tokens with macros expanded", plan_limits::tokens));
    }
  }
}

/// _Pragma("…") is for the compiler, as #pragma is.
void drop_pragma_operators(std::vector<plan_token>& tokens) {
  std::vector<plan_token> kept;
  kept.reserve(tokens.size());
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const bool pragma = tokens[at].text == "_Pragma" && at + 3 < tokens.size() &&
                        tokens[at + 1].text == "(" && tokens[at + 2].kind == token_kind::string &&
                        tokens[at + 3].text == ")";
    if (pragma)
      at += 3;
    else
      kept.push_back(std::move(tokens[at]));
  }
  tokens = std::move(kept);
}

tl::expected<token_list, plan_error> expander::run() {
  std::vector<plan_token> text;
  for (std::size_t at = 0; at < raw_.size() && !error_;) {
    if (!raw_[at].directive) {
      text.push_back(std::move(raw_[at++].token));
      continue;
    }
    std::size_t end = at + 1;
    while (end < raw_.size() && raw_[end].directive && !raw_[end].line_start)
      ++end;
    // Macros hold from their line on: what stands before is expanded first.
    const std::string name = at + 1 < end ? raw_[at + 1].token.text : "";
    if (name == "define" || name == "undef") {
      expand(text, result_.tokens, 0);
      text.clear();
    }
    if (!error_) read_directive(at, end);
    at = end;
  }
  if (!error_) expand(text, result_.tokens, 0);
  drop_pragma_operators(result_.tokens);
  if (error_) return tl::make_unexpected(*error_);
  return std::move(result_);
}

}  // namespace

tl::expected<token_list, plan_error> read_tokens(std::string_view source) {
  if (source.size() > plan_limits::source_bytes) {
    return tl::make_unexpected(plan_error{1, 1,
                                          fmt::format("the file has {} bytes, at most {}",
                                                      source.size(), plan_limits::source_bytes)});
  }
  return expander(locate(source)).run();
}

}  // namespace quern::env::plan
