// Where a number or a string of Python ends.
#include "env/lanes/pytorch/text/python_literals.hpp"

#include <string>

namespace quern::env {
namespace {

/// Deeper f-strings are refused; CPython's limit is the same.
constexpr int deepest_formatted = 150;
/// Brackets in one field of an f-string; CPython's limit for all that are open.
constexpr std::size_t deepest_field_brackets = 200;

constexpr char lower_of_python(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

class python_number_scanner {
 public:
  python_number_scanner(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  python_literal_end run() {
    const bool is_good = text_[at_] == '0' ? zero() : text_[at_] == '.' ? point() : decimal();
    if (!is_good) return {at_, python_fault_kind::bad_number};
    return {at_, std::nullopt};
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  /// Digits with single underscores between them; `allowed` are the digits. False: none at first.
  bool digits(std::string_view allowed) {
    const auto is_allowed = [&](char c) { return c != '\0' && allowed.find(c) != allowed.npos; };
    while (true) {
      if (!is_allowed(peek())) return false;
      while (is_allowed(peek()))
        ++at_;
      if (peek() != '_') return true;
      ++at_;
    }
  }
  bool decimal_digits() { return digits("0123456789"); }

  bool with_base(std::string_view allowed) {
    at_ += 2;
    if (peek() == '_') ++at_;
    return digits(allowed) && !is_python_digit(peek()) && ends();
  }

  bool zero() {
    switch (lower_of_python(peek(1))) {
      case 'x':
        return with_base("0123456789abcdefABCDEF");
      case 'o':
        return with_base("01234567");
      case 'b':
        return with_base("01");
      default:
        break;
    }
    const std::size_t begin = at_;
    if (!decimal_digits()) return false;
    // 00 is a number, 09 is none, and 09.5, 09e1 and 09j are.
    const bool is_zero = text_.substr(begin, at_ - begin).find_first_of("123456789") == text_.npos;
    const char c = lower_of_python(peek());
    const bool is_real = c == '.' || c == 'j' || (c == 'e' && begins_exponent());
    return (is_zero || is_real) && behind_digits();
  }
  bool decimal() { return decimal_digits() && behind_digits(); }
  bool behind_digits() { return peek() == '.' ? point() : exponent(); }

  bool point() {
    ++at_;
    if (is_python_digit(peek()) && !decimal_digits()) return false;
    return exponent();
  }

  [[nodiscard]] bool begins_exponent() const {
    return is_python_digit(peek(1)) || peek(1) == '+' || peek(1) == '-';
  }
  bool exponent() {
    if (lower_of_python(peek()) == 'e' && begins_exponent()) {
      at_ += is_python_digit(peek(1)) ? 1 : 2;
      if (!decimal_digits()) return false;
    }
    if (lower_of_python(peek()) == 'j') ++at_;
    return ends();
  }

  /// Whether what follows may stand directly behind a number.
  [[nodiscard]] bool ends() const {
    if (!in_python_name(peek())) return true;
    constexpr std::string_view words[] = {"and", "else", "for", "not", "or"};
    for (const std::string_view word : words)
      if (text_.substr(at_, word.size()) == word && !in_python_name(peek(word.size()))) return true;
    return peek() == 'i' && (peek(1) == 'f' || peek(1) == 'n' || peek(1) == 's');
  }

  std::string_view text_;
  std::size_t at_;
};

class python_string_scanner {
 public:
  explicit python_string_scanner(std::string_view text) : text_(text) {}

  python_literal_end run(const python_string_start& start) {
    at_ = start.quote;
    fault_.reset();
    string(start, 0);
    return {at_, fault_};
  }

 private:
  /// The quotes of a literal.
  struct quotes {
    char mark = '"';
    std::size_t size = 1;  ///< or 3
    bool is_raw = false;
  };

  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool fail(python_fault_kind kind) {
    fault_ = kind;
    return false;
  }

  [[nodiscard]] bool closes(const quotes& of) const {
    for (std::size_t i = 0; i < of.size; ++i)
      if (peek(i) != of.mark) return false;
    return true;
  }

  // Each function below goes on from at_ and leaves it behind what it read; false: fault_ is set.

  bool string(const python_string_start& start, int depth) {
    at_ = start.quote;
    quotes of{text_[at_], 1, start.is_raw};
    if (peek(1) == of.mark && peek(2) == of.mark) of.size = 3;
    at_ += of.size;
    if (depth >= deepest_formatted) return fail(python_fault_kind::too_deep);
    return start.is_formatted ? formatted(of, depth) : plain(of);
  }

  bool plain(const quotes& of) {
    while (!at_end() && !closes(of)) {
      if (peek() == '\n' && of.size == 1) break;
      at_ += peek() == '\\' ? 2 : 1;
    }
    if (at_end() || !closes(of)) return fail(python_fault_kind::unterminated_string);
    at_ += of.size;
    return true;
  }

  bool formatted(const quotes& of, int depth) {
    while (!at_end() && !closes(of)) {
      const char c = peek();
      if (c == '\n' && of.size == 1) break;
      if (c == '\\') {
        escape(of);
      } else if (c == '{' && peek(1) != '{') {
        if (!field(of, depth)) return false;
      } else if (c == '}' && peek(1) != '}') {
        return fail(python_fault_kind::bad_field);
      } else {
        at_ += c == '{' || c == '}' ? 2 : 1;
      }
    }
    if (at_end() || !closes(of)) return fail(python_fault_kind::unterminated_string);
    at_ += of.size;
    return true;
  }

  /// At a backslash between fields, or in a format. It does not hide a brace.
  void escape(const quotes& of) {
    const char next = peek(1);
    at_ += next == '{' || next == '}' ? 1 : 2;
    if (of.is_raw || next != 'N' || peek() != '{') return;
    const std::size_t close = text_.find_first_of("{}\n'\"", at_ + 1);
    if (close != text_.npos && text_[close] == '}') at_ = close + 1;
  }

  /// At the brace of a field; ends behind the one that closes it.
  bool field(const quotes& of, int depth) {
    if (++fields_ > deepest_formatted) return fail(python_fault_kind::too_deep);
    std::string open;  // brackets, the field's own first
    bool is_good = true;
    do {
      is_good = part(of, depth, open);
    } while (is_good && !open.empty());
    --fields_;
    return is_good;
  }

  /// One token of a field, or a blank.
  bool part(const quotes& of, int depth, std::string& open) {
    if (at_end()) return fail(python_fault_kind::bad_field);
    if (const auto start = python_string_at(text_, at_)) return string(*start, depth + 1);
    const char c = peek();
    if (in_python_name(c)) {
      while (in_python_name(peek()))
        ++at_;
      return true;
    }
    if (c == '#') {
      at_ = text_.find('\n', at_);
      return true;
    }
    if (c == '\\') {
      if (peek(1) != '\n') return fail(python_fault_kind::bad_continuation);
      at_ += 2;
      return true;
    }
    ++at_;
    if (c == ':' && open.size() == 1) return format(of, depth);
    if (c == '(' || c == '[' || c == '{') {
      open += c;
      return open.size() <= deepest_field_brackets || fail(python_fault_kind::too_deep);
    }
    if (c == ')' || c == ']' || c == '}') {
      const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.back() != opening) return fail(python_fault_kind::bracket_mismatch);
      open.pop_back();
      return true;
    }
    const bool is_blank = c == ' ' || c == '\t' || c == '\f' || c == '\n';
    return is_blank || c == '!' || is_python_operator(c) || fail(python_fault_kind::bad_character);
  }

  /// Behind the colon of a field; ends before the brace that closes the field, or at the line end
  /// that ends a format between single quotes.
  bool format(const quotes& of, int depth) {
    while (!at_end() && !closes(of)) {
      const char c = peek();
      if (c == '}' || (c == '\n' && of.size == 1)) return true;
      if (c == '\\') {
        escape(of);
      } else if (c == '{') {
        if (!field(of, depth)) return false;
      } else {
        ++at_;
      }
    }
    return fail(python_fault_kind::bad_field);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int fields_ = 0;  ///< that are open
  std::optional<python_fault_kind> fault_;
};

}  // namespace

python_literal_end end_of_python_number(std::string_view text, std::size_t at) {
  return python_number_scanner(text, at).run();
}

std::optional<python_string_start> python_string_at(std::string_view text, std::size_t at) {
  constexpr std::string_view prefixes[] = {"",   "b", "br", "rb", "f", "fr",
                                           "rf", "t", "tr", "rt", "r", "u"};
  std::string prefix;
  std::size_t quote = at;
  for (; quote < text.size() && prefix.size() <= 2; ++quote) {
    if (text[quote] == '"' || text[quote] == '\'') break;
    prefix += lower_of_python(text[quote]);
  }
  if (quote >= text.size() || prefix.size() > 2) return std::nullopt;
  for (const std::string_view known : prefixes) {
    if (known != prefix) continue;
    const auto has = [&](char c) { return prefix.find(c) != prefix.npos; };
    return python_string_start{quote, has('f') || has('t'), has('r')};
  }
  return std::nullopt;
}

python_literal_end end_of_python_string(std::string_view text, const python_string_start& start) {
  return python_string_scanner(text).run(start);
}

}  // namespace quern::env
