// The two split patterns, scanned by hand: a regular expression engine would need look-ahead and
// Unicode classes, and would be a hundred times slower.
#include "policy/text/split.hpp"

#include <algorithm>
#include <array>

#include <utf8proc.h>

#include "policy/text/utf8.hpp"

namespace quern::policy {

namespace {

constexpr std::string_view qwen2_regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class kind : std::uint8_t { letter, number, newline, space, other, end };

constexpr bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

kind kind_of(const utf8_char& c) {
  if (!c.valid) return kind::other;
  if (c.code == '\r' || c.code == '\n') return kind::newline;
  if (is_white_space(c.code)) return kind::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c.code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kind::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kind::number;
    default:
      return kind::other;
  }
}

/// Walks over the text from `start`; `at` is where it stands.
class scanner {
 public:
  scanner(std::string_view text, std::size_t start) : text_(text), start_(start), at_(start) {
    look();
  }

  kind here() const { return kind_; }
  char32_t code() const { return char_.code; }
  std::size_t length() const { return at_ - start_; }

  void step() {
    at_ += char_.size;
    look();
  }
  void back_to(std::size_t length) {
    at_ = start_ + length;
    look();
  }
  template <class Wanted>
  void skip_while(Wanted wanted) {
    while (kind_ != kind::end && wanted(kind_))
      step();
  }
  /// Skips characters of the kind, `limit` at most.
  void skip(kind wanted, int limit) {
    for (; limit > 0 && kind_ == wanted; --limit)
      step();
  }

 private:
  void look() {
    char_ = at_ < text_.size() ? decode_utf8(text_, at_) : utf8_char{0, 0, true};
    kind_ = at_ < text_.size() ? kind_of(char_) : kind::end;
  }

  std::string_view text_;
  std::size_t start_;
  std::size_t at_;
  utf8_char char_;
  kind kind_ = kind::end;
};

constexpr bool white(kind k) {
  return k == kind::space || k == kind::newline;
}
constexpr bool letter(kind k) {
  return k == kind::letter;
}
constexpr bool newline(kind k) {
  return k == kind::newline;
}
constexpr bool symbol(kind k) {
  return k == kind::other;
}

/// Simple case folding of what the contractions are made of; U+017F (long s) folds to s.
constexpr char32_t fold(char32_t c) {
  if (c == 0x17F) return 's';
  return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d), or 0.
std::size_t contraction(scanner scan) {
  if (scan.here() != kind::other || scan.code() != '\'') return 0;
  scan.step();
  if (scan.here() != kind::letter) return 0;
  const char32_t first = fold(scan.code());
  scan.step();
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return scan.length();
  if (scan.here() != kind::letter) return 0;
  const char32_t second = fold(scan.code());
  scan.step();
  const bool known = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
  return known ? scan.length() : 0;
}

/// [^\r\n\p{L}\p{N}]?\p{L}+, or 0.
std::size_t word(scanner scan) {
  if (scan.here() == kind::space || scan.here() == kind::other) scan.step();
  if (scan.here() != kind::letter) return 0;
  scan.skip_while(letter);
  return scan.length();
}

///  ?[^\s\p{L}\p{N}]+[\r\n]*, or 0.
std::size_t symbols(scanner scan) {
  if (scan.here() == kind::space && scan.code() == ' ') scan.step();
  if (scan.here() != kind::other) return 0;
  scan.skip_while(symbol);
  scan.skip_while(newline);
  return scan.length();
}

/// \s*[\r\n]+|\s+(?!\S)|\s+ : a run of white space up to its last line end; without one, all of it
/// at the end of the text, else all but its last character, if that leaves any.
std::size_t white_run(scanner scan) {
  std::size_t after_newline = 0;
  std::size_t before_last = 0;
  while (white(scan.here())) {
    const bool line_end = scan.here() == kind::newline;
    before_last = scan.length();
    scan.step();
    if (line_end) after_newline = scan.length();
  }
  if (after_newline > 0) return after_newline;
  if (scan.here() == kind::end || before_last == 0) return scan.length();
  return before_last;
}

}  // namespace

std::string_view pattern_text(split_pattern pattern) {
  return pattern == split_pattern::qwen2 ? qwen2_regex : llama3_regex;
}

std::optional<split_pattern> pattern_from_text(std::string_view text) {
  if (text == qwen2_regex) return split_pattern::qwen2;
  if (text == llama3_regex) return split_pattern::llama3;
  return std::nullopt;
}

std::size_t next_piece(split_pattern pattern, std::string_view text, std::size_t at) {
  scanner scan(text, at);
  if (const auto size = contraction(scan)) return size;
  if (const auto size = word(scan)) return size;
  if (scan.here() == kind::number) {
    scan.skip(kind::number, pattern == split_pattern::qwen2 ? 1 : 3);
    return scan.length();
  }
  if (const auto size = symbols(scan)) return size;
  return white_run(scan);
}

}  // namespace quern::policy
