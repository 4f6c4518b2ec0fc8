// Integer expressions over size names, as task files use them for shapes, index bounds and costs
// ("8*n*m", "(n-2)/2").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

/// A parsed expression: non-negative decimal integers, names, + - * / and parentheses; usual
/// precedence, left to right; / rounds toward zero. At most 256 characters and 64 operands and
/// operators. A plain value: copied and compared freely, safe to share between threads.
class size_expr {
 public:
  /// The constant 0.
  size_expr();

  /// The constant `value`; value >= 0.
  explicit size_expr(std::int64_t value);

  /// Errors name the text and the column at which it stops making sense.
  static base::expected<size_expr> parse(std::string_view text);

  /// Value with names[i] = values[i]. Errors: a name that is not in `names` (with the nearest that
  /// is), division by zero, and any intermediate result outside int64: nothing ever wraps around.
  base::expected<std::int64_t> evaluate(std::span<const std::string> names,
                                        std::span<const std::int64_t> values) const;

  /// Canonical spelling: no spaces and only the parentheses that matter. parse(text()) == *this.
  const std::string& text() const { return text_; }

  /// Names used, in order of first use.
  std::vector<std::string> names() const;

  friend bool operator==(const size_expr& a, const size_expr& b) { return a.text_ == b.text_; }

 private:
  /// One step of the postfix program: a constant, a name or an operator.
  struct step {
    char kind;  ///< 'i' constant, 'n' name, or the operator itself
    std::int64_t value = 0;
    std::string name;
  };
  friend class expr_parser;

  std::vector<step> steps_;
  std::string text_;
};

}  // namespace quern::env
