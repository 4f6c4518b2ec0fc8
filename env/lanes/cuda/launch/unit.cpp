// Splits a file into declarations.
#include "env/lanes/cuda/launch/unit.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/value_type.hpp"

namespace quern::env::plan {
namespace {

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

class outliner {
 public:
  outliner(unit& into) : unit_(into), tokens_(into.tokens) {}

  std::optional<plan_error> run();

 private:
  struct open_scope {
    std::size_t names = 0;  // how many it adds to the path
    bool external_c = false;
  };

  [[nodiscard]] std::string_view text(std::size_t at) const {
    return at < tokens_.size() ? std::string_view(tokens_[at].text) : std::string_view();
  }
  void fail(std::size_t at, std::string what) {
    const plan_token& token = tokens_[std::min(at, tokens_.size() - 1)];
    if (!error_) error_ = plan_error{token.line, token.column, std::move(what)};
  }
  [[nodiscard]] bool opens_scope(std::size_t& at);
  void read_declaration(std::size_t first);
  [[nodiscard]] std::size_t end_of_declaration(std::size_t first, std::size_t head);
  [[nodiscard]] std::size_t skip_attribute(std::size_t at) const;
  void read_function(declaration made, std::size_t head, std::size_t open);
  void read_variables(const declaration& common, std::size_t head);
  void read_alias(declaration made, std::size_t head);
  void read_class(declaration made, std::size_t at);
  void add(declaration made);

  unit& unit_;
  const std::vector<plan_token>& tokens_;
  std::vector<std::string> path_;
  std::vector<open_scope> scopes_;
  std::optional<plan_error> error_;
  std::size_t at_ = 0;
};

// namespace a::b {, inline namespace a {, namespace {, extern "C" {: true, and `at` behind it.
bool outliner::opens_scope(std::size_t& at) {
  std::size_t next = at;
  if (text(next) == "extern" && text(next + 1) == "\"C\"" && text(next + 2) == "{") {
    scopes_.push_back({0, true});
    at = next + 3;
    return true;
  }
  const bool is_inline = text(next) == "inline" && text(next + 1) == "namespace";
  if (is_inline) ++next;
  if (text(next) != "namespace") return false;
  ++next;
  const std::size_t before = path_.size();
  while (next < tokens_.size() && text(next) != "{" && text(next) != "=" && text(next) != ";") {
    if (tokens_[next].kind == token_kind::identifier && !is_inline)
      path_.push_back(tokens_[next].text);
    ++next;
  }
  if (text(next) != "{") {  // namespace a = b;
    path_.resize(before);
    return false;
  }
  const bool external_c = !scopes_.empty() && scopes_.back().external_c;
  scopes_.push_back({path_.size() - before, external_c});
  at = next + 1;
  return true;
}

// The first token behind __launch_bounds__(...), alignas(...), [[...]]; `at` itself where none is.
std::size_t outliner::skip_attribute(std::size_t at) const {
  if (text(at) == "[" && text(at + 1) == "[") {
    const std::size_t close = closing(tokens_, at, tokens_.size());
    return close + 1;
  }
  if (one_of(text(at), {"__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__",
                        "__attribute__", "alignas", "__align__", "__declspec", "decltype"}) &&
      text(at + 1) == "(") {
    return closing(tokens_, at + 1, tokens_.size()) + 1;
  }
  return at;
}

// The last token of a declaration: ';', or the '}' of a function's body.
std::size_t outliner::end_of_declaration(std::size_t first, std::size_t head) {
  bool with_parentheses = false;
  bool with_sign = false;
  const bool is_class = one_of(text(head), {"struct", "class", "union", "enum", "typedef"});
  for (std::size_t at = head; at < tokens_.size();) {
    const std::size_t skipped = skip_attribute(at);
    if (skipped != at) {
      at = skipped;
      continue;
    }
    const std::string_view word = text(at);
    if (word == ";") return at;
    if (word == "=") with_sign = true;
    if (word == "}" || word == ")" || word == "]") {
      fail(at, fmt::format("'{}' without its opening bracket", word));
      return tokens_.size();
    }
    if (word == "(" || word == "[" || word == "{") {
      const std::size_t close = closing(tokens_, at, tokens_.size());
      if (close >= tokens_.size()) {
        fail(at, fmt::format("'{}' is never closed", word));
        return tokens_.size();
      }
      if (word == "(") with_parentheses = true;
      if (word == "{" && with_parentheses && !with_sign && !is_class) return close;
      at = close;
    }
    ++at;
  }
  fail(first, "a declaration without an end");
  return tokens_.size();
}

void outliner::add(declaration made) {
  made.qualified.clear();
  for (const std::string& one : made.path)
    made.qualified += one + "::";
  made.qualified += made.name;
  if (!made.specialisation) unit_.by_name[made.qualified].push_back(unit_.declarations.size());
  unit_.declarations.push_back(std::move(made));
}

void outliner::read_class(declaration made, std::size_t at) {
  for (++at; at < made.whole.last; ++at) {
    at = skip_attribute(at);
    if (at >= made.whole.last || one_of(text(at), {"{", ":", ";"})) return;
    if (tokens_[at].kind != token_kind::identifier || one_of(text(at), {"class", "struct"}))
      continue;
    made.name = tokens_[at].text;
    made.specialisation = text(at + 1) == "<";
    made.kind = entity::type;
    return add(std::move(made));
  }
}

void outliner::read_alias(declaration made, std::size_t head) {
  const std::size_t end = made.whole.last - 1;  // the ';'
  made.kind = entity::alias;
  if (text(head) == "typedef") {
    if (end < head + 3 || tokens_[end - 1].kind != token_kind::identifier) return;
    made.name_at = end - 1;
    made.type = {head + 1, end - 1};
  } else if (text(head + 1) == "namespace") {
    std::vector<std::string> path;
    for (std::size_t at = head + 2; at < end; ++at)
      if (tokens_[at].kind == token_kind::identifier) path.push_back(tokens_[at].text);
    unit_.opened.push_back(std::move(path));
    return;
  } else if (text(head + 2) == "=") {
    made.name_at = head + 1;
    made.type = {head + 3, end};
  } else {
    return;  // using std::max;
  }
  made.name = tokens_[made.name_at].text;
  add(std::move(made));
}

// `const int a = 1, b = 2;`, `int n;`, `constexpr float c{1.0f};`
void outliner::read_variables(const declaration& common, std::size_t head) {
  const std::size_t end = common.whole.last - 1;
  bool with_const = false;
  bool on_device = common.device;
  std::size_t begin = head;
  token_range type;
  for (std::size_t at = head; at <= end; ++at) {
    at = skip_attribute(at);
    const std::string_view word = text(at);
    if (word == "const") with_const = true;
    if (one_of(word, {"__constant__", "__shared__", "__managed__"})) on_device = true;
    if (word == "<") at = closing(tokens_, at, end);
    if (!one_of(text(at), {"=", "{", ";", ",", "["})) continue;
    declaration made = common;
    made.name_at = at - 1;
    if (at <= begin || tokens_[at - 1].kind != token_kind::identifier) return;
    made.name = tokens_[at - 1].text;
    if (type.empty()) type = {head, at - 1};
    made.type = type;
    const bool initialised = word == "=" || word == "{";
    std::size_t next = at;
    for (; next < end && text(next) != ","; ++next)
      if (one_of(text(next), {"(", "[", "{"})) next = closing(tokens_, next, end);
    made.initialiser = word == "=" ? token_range{at + 1, next} : token_range{at + 1, next - 1};
    const bool fixed = (with_const || common.is_constexpr) && initialised && !on_device;
    const bool fixed_on_device = common.is_constexpr && initialised;
    made.kind = fixed || fixed_on_device ? entity::constant : entity::variable;
    add(std::move(made));
    at = next;
    begin = next + 1;
  }
}

void outliner::read_function(declaration made, std::size_t head, std::size_t open) {
  const std::size_t close = closing(tokens_, open, tokens_.size());
  made.parameters = {open + 1, close};
  made.name_at = open - 1;
  if (text(open - 1) == ">") {  // an explicit specialisation: its name stands before the '<'
    made.specialisation = true;
    std::size_t at = open;
    for (int depth = 0; at > head + 1;) {
      --at;
      if (text(at) == ">") ++depth;
      if (text(at) == "<" && --depth == 0) break;
    }
    made.name_at = at - 1;
  }
  if (tokens_[made.name_at].kind != token_kind::identifier) return;  // operator+ and its like
  if (made.name_at > head && one_of(text(made.name_at - 1), {"::", "operator", "~"})) return;
  made.name = tokens_[made.name_at].text;
  made.type = {head, made.name_at};
  for (std::size_t at = close; at + 1 < made.whole.last; ++at) {
    if (text(at) == "->") {
      made.type = {at + 1, at + 1};
      while (made.type.last < made.whole.last && !one_of(text(made.type.last), {"{", ";"}))
        ++made.type.last;
    }
    if (text(at) == "{") break;
  }
  made.defined = text(made.whole.last - 1) == "}";
  if (made.defined) {
    std::size_t at = close;
    while (text(at) != "{")
      ++at;
    made.body = {at + 1, made.whole.last - 1};
  }
  add(std::move(made));
}

void outliner::read_declaration(std::size_t first) {
  declaration made;
  made.path = path_;
  made.external_c = !scopes_.empty() && scopes_.back().external_c;
  std::size_t head = first;
  while (text(head) == "template" && text(head + 1) == "<") {
    const std::size_t close = closing(tokens_, head + 1, tokens_.size());
    if (close >= tokens_.size()) return fail(head, "'template <' is never closed");
    made.is_template = true;
    made.specialisation = close == head + 2;
    made.template_parameters = {head + 2, close};
    head = close + 1;
  }
  const std::size_t last = end_of_declaration(first, head);
  at_ = last + 1;
  if (error_) return;
  made.whole = {first, last + 1};
  std::size_t open = 0;
  bool is_kernel = false;
  for (std::size_t at = head; at < last; ++at) {
    at = skip_attribute(at);
    const std::string_view word = text(at);
    if (one_of(word, {"=", "{"})) break;
    if (word == "(") {
      open = at;
      break;
    }
    if (word == "extern" && text(at + 1) == "\"C\"") made.external_c = true;
    if (word == "__global__") is_kernel = true;
    if (word == "__device__") made.device = true;
    if (word == "__host__") made.host = true;
    if (word == "constexpr" || word == "consteval") made.is_constexpr = true;
  }
  while (one_of(text(head), {"static", "inline"}) && head < last)
    ++head;
  if (one_of(text(head), {"using", "typedef"})) return read_alias(std::move(made), head);
  if (one_of(text(head), {"struct", "class", "union", "enum"}) && open == 0)
    return read_class(std::move(made), head);
  if (one_of(text(head), {"static_assert", "friend", "asm"})) return;
  if (open == 0) return read_variables(made, head);
  made.kind = is_kernel ? entity::kernel : entity::function;
  if (open > head) read_function(std::move(made), head, open);
}

std::optional<plan_error> outliner::run() {
  const std::size_t end = tokens_.size() - 1;
  while (at_ < end && !error_) {
    if (text(at_) == ";") {
      ++at_;
    } else if (text(at_) == "}") {
      if (scopes_.empty()) {
        fail(at_, "'}' without its opening bracket");
        break;
      }
      path_.resize(path_.size() - scopes_.back().names);
      scopes_.pop_back();
      ++at_;
    } else if (!opens_scope(at_)) {
      read_declaration(at_);
    }
  }
  if (!error_ && !scopes_.empty()) fail(end, "a namespace is never closed");
  // A name that this parser takes for a type of its own must not mean another.
  for (const declaration& one : unit_.declarations) {
    if (error_ || (one.kind != entity::alias && one.kind != entity::type)) continue;
    if (known_type(one.name)) fail(one.whole.first, fmt::format("'{}' is declared anew", one.name));
  }
  return error_;
}

}  // namespace

std::size_t closing(const std::vector<plan_token>& tokens, std::size_t open, std::size_t stop) {
  stop = std::min(stop, tokens.size());
  if (open >= stop) return stop;
  const bool angle = tokens[open].text == "<";
  int depth = 0;
  int angles = 0;
  for (std::size_t at = open; at < stop; ++at) {
    const plan_token& one = tokens[at];
    if (one.kind != token_kind::punctuator || one.text.size() != 1) continue;
    const char c = one.text[0];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') {
      --depth;
      if (angle && depth < 0) return stop;
      if (!angle && depth == 0) return at;
    }
    if (angle && depth == 0 && c == '<') ++angles;
    if (angle && depth == 0 && c == '>' && --angles == 0) return at;
    if (angle && depth == 0 && c == ';') return stop;
  }
  return stop;
}

tl::expected<unit, plan_error> read_unit(std::string_view source) {
  auto read = read_tokens(source);
  if (!read) return tl::make_unexpected(read.error());
  unit made;
  made.tokens = std::move(read->tokens);
  made.directives = std::move(read->directives);
  plan_token end;
  end.line = made.tokens.empty() ? 1 : made.tokens.back().line;
  end.column = made.tokens.empty() ? 1 : made.tokens.back().column;
  end.begin = source.size();
  end.end = source.size();
  made.tokens.push_back(std::move(end));
  if (auto error = outliner(made).run()) return tl::make_unexpected(*error);
  return made;
}

std::string blanked(std::string_view source, const unit& of,
                    const std::vector<token_range>& ranges) {
  std::string text(source);
  for (const token_range& range : ranges) {
    const std::size_t end = of.tokens[range.last - 1].end;
    for (std::size_t at = of.tokens[range.first].begin; at < end; ++at)
      if (text[at] != '\n' && text[at] != '\r') text[at] = ' ';
  }
  return text;
}

bool host_only(const declaration& one) {
  return one.kind == entity::function && !one.device && !one.is_constexpr;
}

}  // namespace quern::env::plan
