// Parser, canonical printer and evaluator of size expressions.
#include "env/tensor_task/size_expr.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.hpp"

namespace quern::env {

namespace {

constexpr std::size_t max_text = 256;
constexpr std::size_t max_steps = 64;
constexpr int max_depth = 32;

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_decimal_digit(char c) {
  return c >= '0' && c <= '9';
}

int precedence(char op) {
  return op == '+' || op == '-' ? 1 : 2;
}

}  // namespace

/// Recursive descent: sum = product (+|- product)*, product = atom (*|/ atom)*, atom = number |
/// name | (sum).
class expr_parser {
 public:
  explicit expr_parser(std::string_view text) : text_(text) {}

  base::expected<size_expr> run() {
    if (text_.size() > max_text) {
      return base::fail(base::errc::invalid_argument,
                        "size expression has {} characters, at most {} are allowed: shorten it",
                        text_.size(), max_text);
    }
    QUERN_CHECK(sum(0));
    if (peek() != '\0') return unexpected("an operator or the end");
    return finish();
  }

 private:
  /// Next character that is not a space; '\0' at the end (a zero byte in the text reads as '\1').
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'))
      ++at_;
    if (at_ == text_.size()) return '\0';
    return text_[at_] == '\0' ? '\1' : text_[at_];
  }

  tl::unexpected<base::error> unexpected(std::string_view wanted) const {
    const std::string found = at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "the end";
    return base::fail(
        base::errc::invalid_argument,
        "size expression '{}': found {} at column {} where {} was expected; allowed are integers, "
        "size names, + - * / and parentheses",
        text_, found, at_ + 1, wanted);
  }

  base::status push(size_expr::step step) {
    if (steps_.size() == max_steps) {
      return base::fail(base::errc::invalid_argument,
                        "size expression '{}' has more than {} operands and operators: simplify it",
                        text_, max_steps);
    }
    steps_.push_back(std::move(step));
    return {};
  }

  base::status sum(int depth) {
    QUERN_CHECK(product(depth));
    for (char op = peek(); op == '+' || op == '-'; op = peek()) {
      ++at_;
      QUERN_CHECK(product(depth));
      QUERN_CHECK(push({op, 0, {}}));
    }
    return {};
  }

  base::status product(int depth) {
    QUERN_CHECK(atom(depth));
    for (char op = peek(); op == '*' || op == '/'; op = peek()) {
      ++at_;
      QUERN_CHECK(atom(depth));
      QUERN_CHECK(push({op, 0, {}}));
    }
    return {};
  }

  base::status atom(int depth) {
    const char c = peek();
    if (is_decimal_digit(c)) return number();
    if (is_name_start(c)) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && (is_name_start(text_[at_]) || is_decimal_digit(text_[at_])))
        ++at_;
      return push({'n', 0, std::string(text_.substr(begin, at_ - begin))});
    }
    if (c != '(') return unexpected("an integer, a size name or '('");
    if (depth == max_depth) {
      return base::fail(base::errc::invalid_argument,
                        "size expression '{}' nests parentheses deeper than {}: simplify it", text_,
                        max_depth);
    }
    ++at_;
    QUERN_CHECK(sum(depth + 1));
    if (peek() != ')') return unexpected("')'");
    ++at_;
    return {};
  }

  base::status number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_decimal_digit(text_[at_]))
      ++at_;
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text_.data() + begin, text_.data() + at_, value);
    if (code != std::errc() || (at_ < text_.size() && is_name_start(text_[at_]))) {
      return base::fail(
          base::errc::invalid_argument,
          "size expression '{}': the number at column {} is not an integer below 2^63", text_,
          begin + 1);
    }
    return push({'i', value, {}});
  }

  size_expr finish() {
    // Operands with the precedence of their outermost operator; 3 for a constant or a name.
    std::vector<std::pair<std::string, int>> stack;
    for (const size_expr::step& step : steps_) {
      if (step.kind == 'i') {
        stack.emplace_back(std::to_string(step.value), 3);
      } else if (step.kind == 'n') {
        stack.emplace_back(step.name, 3);
      } else {
        const auto right = std::move(stack.back());
        stack.pop_back();
        const auto left = std::move(stack.back());
        stack.pop_back();
        const int level = precedence(step.kind);
        auto wrap = [](const std::string& text, bool needed) {
          return needed ? "(" + text + ")" : text;
        };
        stack.emplace_back(wrap(left.first, left.second < level) + step.kind +
                               wrap(right.first, right.second <= level),
                           level);
      }
    }
    size_expr result;
    result.steps_ = std::move(steps_);
    result.text_ = std::move(stack.back().first);
    return result;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<size_expr::step> steps_;
};

size_expr::size_expr() : size_expr(0) {}

size_expr::size_expr(std::int64_t value) : steps_{{'i', value, {}}}, text_(std::to_string(value)) {}

base::expected<size_expr> size_expr::parse(std::string_view text) {
  return expr_parser(text).run();
}

base::expected<std::int64_t> size_expr::evaluate(std::span<const std::string> names,
                                                 std::span<const std::int64_t> values) const {
  std::array<std::int64_t, max_steps> stack{};
  std::size_t top = 0;
  for (const step& one : steps_) {
    if (one.kind == 'i') {
      stack[top++] = one.value;
      continue;
    }
    if (one.kind == 'n') {
      const auto found = std::find(names.begin(), names.end(), one.name);
      if (found == names.end()) {
        const std::vector<std::string_view> known(names.begin(), names.end());
        return base::fail(base::errc::invalid_argument,
                          "size expression '{}' uses '{}', which is not a size{}", text_, one.name,
                          base::did_you_mean(one.name, known));
      }
      stack[top++] = values[static_cast<std::size_t>(found - names.begin())];
      continue;
    }
    const std::int64_t right = stack[--top];
    std::int64_t& left = stack[top - 1];
    bool overflow = false;
    switch (one.kind) {
      case '+':
        overflow = __builtin_add_overflow(left, right, &left);
        break;
      case '-':
        overflow = __builtin_sub_overflow(left, right, &left);
        break;
      case '*':
        overflow = __builtin_mul_overflow(left, right, &left);
        break;
      default:
        if (right == 0) {
          return base::fail(base::errc::invalid_argument, "size expression '{}' divides by zero",
                            text_);
        }
        overflow = left == INT64_MIN && right == -1;
        if (!overflow) left /= right;
    }
    if (overflow) {
      return base::fail(
          base::errc::invalid_argument,
          "size expression '{}' does not fit 64 bits at these sizes: make them smaller", text_);
    }
  }
  return stack[0];
}

std::vector<std::string> size_expr::names() const {
  std::vector<std::string> result;
  for (const step& one : steps_) {
    if (one.kind == 'n' && std::find(result.begin(), result.end(), one.name) == result.end()) {
      result.push_back(one.name);
    }
  }
  return result;
}

}  // namespace quern::env
