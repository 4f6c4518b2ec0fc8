// Python source as tokens, by the rules of CPython's tokenizer.
#include "env/lanes/pytorch/text/python_tokens.hpp"

#include <algorithm>

#include "env/lanes/pytorch/text/python_literals.hpp"

namespace quern::env {
namespace {

// CPython's limits.
constexpr std::size_t deepest_indentation = 99;
constexpr std::size_t deepest_brackets_open = 200;
constexpr std::uint32_t tab_width = 8;

/// Where a line begins. `narrow` counts a tab as one column: both counts must order lines alike.
struct python_column {
  std::uint32_t wide = 0;
  std::uint32_t narrow = 0;
};

class python_scanner {
 public:
  explicit python_scanner(python_tokens& out) : out_(out), text_(out.text) {}
  void run();

 private:
  // Each of these that returns bool goes on from at_; false: the fault is set.
  bool line();
  bool begin_line();
  bool go_to(const python_column& column);
  bool skip_continuation();
  bool token();
  bool literal(python_token_kind kind, const python_literal_end& found);
  bool bracket(char c);
  bool operation();
  void end_text();

  bool fail(python_fault_kind kind) { return fail(kind, line_); }
  bool fail(python_fault_kind kind, std::uint32_t line) {
    out_.fault = python_fault{kind, line};
    return false;
  }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void skip_comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }
  void add(python_token_kind kind, std::size_t end) {
    out_.tokens.push_back(
        {kind, line_, static_cast<std::uint32_t>(at_), static_cast<std::uint32_t>(end)});
  }

  struct open_bracket {
    char mark;
    std::uint32_t line;
  };

  python_tokens& out_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::vector<python_column> levels_{{}};
  std::vector<open_bracket> brackets_;
  bool has_tokens_ = false;  ///< in the statement's line that is being read
};

/// At a backslash.
bool python_scanner::skip_continuation() {
  if (peek(1) != '\n' || at_ + 2 >= text_.size()) return fail(python_fault_kind::bad_continuation);
  at_ += 2;
  ++line_;
  return true;
}

/// Opens or closes levels for a line that has tokens.
bool python_scanner::go_to(const python_column& column) {
  if (column.wide > levels_.back().wide) {
    if (column.narrow <= levels_.back().narrow) return fail(python_fault_kind::mixed_tabs);
    if (levels_.size() > deepest_indentation) return fail(python_fault_kind::too_deep);
    levels_.push_back(column);
    add(python_token_kind::indent, at_);
    return true;
  }
  while (column.wide < levels_.back().wide) {
    levels_.pop_back();
    add(python_token_kind::dedent, at_);
  }
  if (column.wide != levels_.back().wide) return fail(python_fault_kind::bad_indentation);
  return column.narrow == levels_.back().narrow || fail(python_fault_kind::mixed_tabs);
}

/// The blanks of a line outside brackets. Of a line that is continued before its first token the
/// first column counts that is not 0.
bool python_scanner::begin_line() {
  python_column column;
  std::uint32_t continued = 0;
  for (;; ++at_) {
    const char c = peek();
    if (c == ' ') {
      ++column.wide;
      ++column.narrow;
    } else if (c == '\t') {
      column.wide = (column.wide / tab_width + 1) * tab_width;
      ++column.narrow;
    } else if (c == '\f') {
      column = {};
    } else if (c == '\\') {
      if (continued == 0) continued = column.wide;
      if (!skip_continuation()) return false;
      --at_;  // the loop goes on with the character behind the line end
    } else {
      break;
    }
  }
  if (continued != 0) column = {continued, continued};
  return peek() == '#' || peek() == '\n' || at_ >= text_.size() || go_to(column);
}

bool python_scanner::literal(python_token_kind kind, const python_literal_end& found) {
  if (found.fault) return fail(*found.fault);
  add(kind, found.end);
  const auto whole = text_.substr(at_, found.end - at_);
  line_ += static_cast<std::uint32_t>(std::count(whole.begin(), whole.end(), '\n'));
  at_ = found.end;
  return true;
}

bool python_scanner::bracket(char c) {
  if (c == '(' || c == '[' || c == '{') {
    if (brackets_.size() >= deepest_brackets_open) return fail(python_fault_kind::too_deep);
    brackets_.push_back({c, line_});
    return true;
  }
  const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
  if (brackets_.empty() || brackets_.back().mark != opening)
    return fail(python_fault_kind::bracket_mismatch);
  brackets_.pop_back();
  return true;
}

bool python_scanner::operation() {
  constexpr std::string_view longer[] = {
      "...", "**=", "//=", "<<=", ">>=", "!=", "%=", "&=", "**", "*=", "+=", "-=", "->",
      "//",  "/=",  ":=",  "<<",  "<=",  "<>", "==", ">=", ">>", "@=", "^=", "|="};
  const char c = peek();
  std::size_t size = is_python_operator(c) ? 1 : 0;
  for (const std::string_view known : longer) {
    if (text_.substr(at_, known.size()) != known) continue;
    size = known.size();
    break;
  }
  if (size == 0) return fail(python_fault_kind::bad_character);
  const bool is_bracket = std::string_view("()[]{}").find(c) != std::string_view::npos;
  if (is_bracket && !bracket(c)) return false;
  add(python_token_kind::operation, at_ + size);
  at_ += size;
  return true;
}

bool python_scanner::token() {
  has_tokens_ = true;
  if (const auto start = python_string_at(text_, at_)) {
    const auto kind =
        start->is_formatted ? python_token_kind::formatted : python_token_kind::string;
    return literal(kind, end_of_python_string(text_, *start));
  }
  const char c = peek();
  if (is_python_digit(c) || (c == '.' && is_python_digit(peek(1))))
    return literal(python_token_kind::number, end_of_python_number(text_, at_));
  if (!in_python_name(c)) return operation();
  // A second byte order mark is no letter. Without this a canonical form could begin with one.
  if (text_.substr(at_).starts_with("\xEF\xBB\xBF")) return fail(python_fault_kind::bad_character);
  std::size_t end = at_;
  while (end < text_.size() && in_python_name(text_[end]))
    ++end;
  add(python_token_kind::name, end);
  at_ = end;
  return true;
}

/// A statement's line, with all that brackets and backslashes join to it, or an empty one.
bool python_scanner::line() {
  has_tokens_ = false;
  if (!begin_line()) return false;
  while (at_ < text_.size()) {
    const char c = peek();
    if (c == ' ' || c == '\t' || c == '\f') {
      ++at_;
    } else if (c == '#') {
      skip_comment();
    } else if (c == '\\') {
      if (!skip_continuation()) return false;
    } else if (c == '\n') {
      if (brackets_.empty() && has_tokens_) add(python_token_kind::newline, at_ + 1);
      ++at_;
      ++line_;
      if (brackets_.empty()) return true;
    } else if (!token()) {
      return false;
    }
  }
  return true;
}

void python_scanner::end_text() {
  if (!brackets_.empty()) {
    fail(python_fault_kind::open_bracket, brackets_.back().line);
    return;
  }
  for (; levels_.size() > 1; levels_.pop_back())
    add(python_token_kind::dedent, at_);
}

void python_scanner::run() {
  while (at_ < text_.size())
    if (!line()) return;
  end_text();
}

}  // namespace

python_tokens tokenize_python(std::string_view bytes) {
  python_text read = read_python_text(bytes);
  python_tokens out{std::move(read.text), {}, read.fault};
  if (!out.fault) python_scanner(out).run();
  return out;
}

}  // namespace quern::env
