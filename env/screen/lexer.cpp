// C++ source cut into preprocessing tokens, as the compiler's first phases do.
#include "env/screen/lexer.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"

namespace quern::env {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\f' || c == '\v' || c == '\r';
}

bool starts_identifier(char c) {
  // Bytes of other alphabets count as letters, as in the compiler; '$' is an extension of it.
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool in_identifier(char c) {
  return starts_identifier(c) || is_digit(c);
}

struct spelling {
  std::string_view written;
  std::string_view meant;
};

// Longest first; digraphs beside what they mean.
constexpr auto punctuators = std::to_array<spelling>(
    {{"%:%:", "##"}, {"<=>", "<=>"}, {"<<=", "<<="}, {">>=", ">>="}, {"...", "..."}, {"->*", "->*"},
     {"<%", "{"},    {"%>", "}"},    {"<:", "["},    {":>", "]"},    {"%:", "#"},    {"##", "##"},
     {"::", "::"},   {".*", ".*"},   {"->", "->"},   {"++", "++"},   {"--", "--"},   {"<<", "<<"},
     {">>", ">>"},   {"<=", "<="},   {">=", ">="},   {"==", "=="},   {"!=", "!="},   {"&&", "&&"},
     {"||", "||"},   {"+=", "+="},   {"-=", "-="},   {"*=", "*="},   {"/=", "/="},   {"%=", "%="},
     {"^=", "^="},   {"&=", "&="},   {"|=", "|="}});

constexpr std::string_view single_punctuators = "{}[]#();:?.~!+-*/%^=&|<>,";

// The text with physical lines; a backslash at the end of a line (blanks after it count too, as in
// GCC) joins the next one, except inside raw strings, which read the bytes as they are.
class scanner {
 public:
  explicit scanner(std::string_view text) : text_(base::without_byte_order_mark(text)) {}

  std::vector<token> run();

 private:
  [[nodiscard]] bool done() {
    skip_splices();
    return at_ >= text_.size();
  }
  // Current and later characters with splices removed; '\0' past the end.
  char peek(std::size_t ahead = 0) {
    std::size_t at = after_splices(at_);
    for (; ahead > 0 && at < text_.size(); --ahead)
      at = after_splices(at + 1);
    return at < text_.size() ? text_[at] : '\0';
  }
  char take() {
    skip_splices();
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  void take(std::size_t count, std::string& into) {
    for (; count > 0 && !done(); --count)
      into += take();
  }
  [[nodiscard]] std::size_t after_splices(std::size_t at) const {
    while (at < text_.size() && text_[at] == '\\') {
      std::size_t next = at + 1;
      while (next < text_.size() && is_blank(text_[next]))
        ++next;
      if (next >= text_.size() || text_[next] != '\n') break;
      at = next + 1;
    }
    return at;
  }
  void skip_splices() {
    const std::size_t next = after_splices(at_);
    line_ += static_cast<std::uint32_t>(
        std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                   text_.begin() + static_cast<std::ptrdiff_t>(next), '\n'));
    at_ = next;
  }

  void skip_line_comment() {
    while (!done() && peek() != '\n')
      take();
  }
  void skip_block_comment() {
    take();
    take();
    while (!done()) {
      if (take() == '*' && peek() == '/') {
        take();
        return;
      }
    }
  }

  void lex_one(token& out);
  void lex_quoted(token& out, char quote);
  bool lex_raw(token& out);
  void lex_number(token& out);
  void lex_suffix(token& out) {
    while (!done() && in_identifier(peek()))
      out.text += take();
  }
  void lex_punctuator(token& out);
  bool lex_header(token& out);

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
};

void scanner::lex_quoted(token& out, char quote) {
  out.kind = quote == '"' ? token_kind::string : token_kind::character;
  out.text += take();
  while (!done() && peek() != '\n') {
    const char c = take();
    out.text += c;
    if (c == quote) {
      lex_suffix(out);
      return;
    }
    if (c == '\\' && !done() && peek() != '\n') out.text += take();
  }
  out.kind = token_kind::other;  // ends with its line
  while (is_blank(out.text.back()))
    out.text.pop_back();
}

// At R's quote. Raw strings are read byte by byte: splices in them are part of the text.
bool scanner::lex_raw(token& out) {
  skip_splices();
  // At most 16 characters between the quote and the parenthesis.
  const std::size_t length = text_.substr(at_ + 1, 17).find('(');
  if (length == std::string_view::npos) return false;
  const std::size_t open = at_ + 1 + length;
  const std::string_view delimiter = text_.substr(at_ + 1, length);
  if (delimiter.find_first_of(" )\\\t\v\f\r\n\"") != std::string_view::npos) return false;
  const std::string close = ")" + std::string(delimiter) + "\"";
  const std::size_t end = text_.find(close, open + 1);
  const std::size_t stop = end == std::string_view::npos ? text_.size() : end + close.size();
  const std::string_view whole = text_.substr(at_, stop - at_);
  out.kind = end == std::string_view::npos ? token_kind::other : token_kind::string;
  out.text += whole;
  if (end == std::string_view::npos)
    while (is_blank(out.text.back()) || out.text.back() == '\n')
      out.text.pop_back();
  line_ += static_cast<std::uint32_t>(std::count(whole.begin(), whole.end(), '\n'));
  at_ = stop;
  lex_suffix(out);
  return true;
}

void scanner::lex_number(token& out) {
  out.kind = token_kind::number;
  out.text += take();
  while (!done()) {
    const char c = peek();
    const char last = out.text.back();
    const bool exponent =
        (c == '+' || c == '-') && (last == 'e' || last == 'E' || last == 'p' || last == 'P');
    const bool separator = c == '\'' && in_identifier(peek(1));
    if (!in_identifier(c) && c != '.' && !exponent && !separator) return;
    out.text += take();
  }
}

void scanner::lex_punctuator(token& out) {
  out.kind = token_kind::punctuator;
  // "<::" is "<" "::" unless ':' or '>' follows (the standard's exception for templates).
  if (peek() == '<' && peek(1) == ':' && peek(2) == ':' && peek(3) != ':' && peek(3) != '>') {
    out.text += take();
    return;
  }
  for (const auto& item : punctuators) {
    std::size_t same = 0;
    while (same < item.written.size() && peek(same) == item.written[same])
      ++same;
    if (same != item.written.size()) continue;
    std::string ignored;
    take(item.written.size(), ignored);
    out.text = item.meant;
    return;
  }
  const char c = take();
  out.text += c;
  if (single_punctuators.find(c) == std::string_view::npos) out.kind = token_kind::other;
}

// What stands behind #include up to its closing mark: neither comments nor escapes in it.
bool scanner::lex_header(token& out) {
  const char close = peek() == '<' ? '>' : peek() == '"' ? '"' : '\0';
  if (close == '\0') return false;
  constexpr std::size_t longest = 256;
  std::size_t length = 1;
  while (length < longest && peek(length) != close && peek(length) != '\n' && peek(length) != '\0')
    ++length;
  if (peek(length) != close) return false;
  out.kind = token_kind::header;
  take(length + 1, out.text);
  return true;
}

void scanner::lex_one(token& out) {
  const char c = peek();
  if (c == '"' || c == '\'') return lex_quoted(out, c);
  if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return lex_number(out);
  if (!starts_identifier(c)) return lex_punctuator(out);
  out.kind = token_kind::identifier;
  while (!done() && in_identifier(peek()))
    out.text += take();
  if (peek() != '"' && peek() != '\'') return;
  const std::string_view prefix = out.text;
  const bool raw =
      prefix == "R" || prefix == "LR" || prefix == "uR" || prefix == "UR" || prefix == "u8R";
  if (raw && peek() == '"' && lex_raw(out)) return;
  if (prefix == "L" || prefix == "u" || prefix == "U" || prefix == "u8") lex_quoted(out, peek());
}

std::vector<token> scanner::run() {
  std::vector<token> tokens;
  bool line_start = true;
  bool directive = false;
  bool glued = false;
  // 1: behind '#'; 2: behind '#include' and its like.
  int stage = 0;
  while (!done()) {
    const char c = peek();
    if (c == '\n') {
      take();
      line_start = true;
      directive = false;
      glued = false;
      stage = 0;
    } else if (is_blank(c)) {
      take();
      glued = false;
    } else if (c == '/' && peek(1) == '/') {
      skip_line_comment();
    } else if (c == '/' && peek(1) == '*') {
      skip_block_comment();  // also over several lines without ending a directive
      glued = false;
    } else {
      token next;
      next.line = line_;
      next.line_start = line_start;
      next.begin = at_;
      if (stage != 2 || !lex_header(next)) lex_one(next);
      next.end = at_;
      if (line_start && next.kind == token_kind::punctuator && next.text == "#") {
        directive = true;
        stage = 1;
      } else if (stage == 1) {
        const bool names_header = next.text == "include" || next.text == "include_next" ||
                                  next.text == "import" || next.text == "embed";
        stage = names_header ? 2 : 0;
      } else {
        stage = 0;
      }
      next.directive = directive;
      next.glued = glued;
      glued = true;
      line_start = false;
      tokens.push_back(std::move(next));
    }
  }
  return tokens;
}

}  // namespace

std::vector<token> lex_cpp(std::string_view source) {
  return scanner(source).run();
}

}  // namespace quern::env
