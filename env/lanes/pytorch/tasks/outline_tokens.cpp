#include "env/lanes/pytorch/tasks/outline_tokens.hpp"

#include <algorithm>
#include <string>

namespace quern::env {

namespace {

bool begins_outline_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_outline_digit(char c) {
  return c >= '0' && c <= '9';
}

bool goes_on_outline_name(char c) {
  return begins_outline_name(c) || is_outline_digit(c);
}

/// Letters that may stand before a string: r, b, u, f and pairs of them.
bool is_string_prefix(std::string_view word) {
  if (word.size() > 2) return false;
  return word.find_first_not_of("rRbBuUfF") == std::string_view::npos;
}

class outline_scanner {
 public:
  explicit outline_scanner(std::string_view text) : text_(text) {}

  std::vector<outline_statement> take() {
    begin_line();
    while (at_ < text_.size())
      step();
    end_statement();
    return std::move(all_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_;
      if (depth_ > 0) return;
      end_statement();
      begin_line();
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\\') {
      // A line that goes on in the next one.
      at_ += text_.substr(at_ + 1, 1) == "\n" ? 2 : 1;
    } else if (c == '"' || c == '\'') {
      read_string(at_);
    } else if (begins_outline_name(c)) {
      read_word();
    } else if (is_outline_digit(c)) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && (goes_on_outline_name(text_[at_]) || text_[at_] == '.'))
        ++at_;
      add(outline_kind::number, begin);
    } else {
      read_sign(c);
    }
  }

  void begin_line() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'))
      ++at_;
    column_ = static_cast<std::int64_t>(at_ - begin);
  }

  void end_statement() {
    if (!tokens_.empty()) all_.push_back({column_, std::move(tokens_)});
    tokens_.clear();
  }

  void add(outline_kind kind, std::size_t begin) {
    tokens_.push_back({kind, text_.substr(begin, at_ - begin), depth_});
  }

  void read_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && goes_on_outline_name(text_[at_]))
      ++at_;
    const bool quote = at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
    if (quote && is_string_prefix(text_.substr(begin, at_ - begin)))
      read_string(begin);
    else
      add(outline_kind::name, begin);
  }

  /// From `begin`, where a prefix may stand; at_ is at the first quote.
  void read_string(std::size_t begin) {
    const char quote = text_[at_];
    const bool three = text_.substr(at_, 3) == std::string(3, quote);
    const std::string_view end = three ? text_.substr(at_, 3) : text_.substr(at_, 1);
    at_ += end.size();
    while (at_ < text_.size() && !text_.substr(at_).starts_with(end)) {
      if (!three && text_[at_] == '\n') break;
      at_ += text_[at_] == '\\' && at_ + 1 < text_.size() ? 2 : 1;
    }
    if (text_.substr(at_).starts_with(end)) at_ += end.size();
    add(outline_kind::string, begin);
  }

  void read_sign(char c) {
    const std::size_t begin = at_++;
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ';' && depth_ == 0) {
      end_statement();
      return;
    }
    add(outline_kind::sign, begin);
    if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::int64_t column_ = 0;
  std::vector<outline_token> tokens_;
  std::vector<outline_statement> all_;
};

}  // namespace

std::vector<outline_statement> statements_of(std::string_view text) {
  return outline_scanner(text).take();
}

}  // namespace quern::env
