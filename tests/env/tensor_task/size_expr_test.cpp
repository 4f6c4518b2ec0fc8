// Size expressions: values, canonical spelling, errors, and agreement with an independent evaluator
// on random ones.
#include "env/tensor_task/size_expr.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "support/test.hpp"

using quern::env::size_expr;

namespace {

const std::vector<std::string> names{"n", "m", "k2"};
const std::vector<std::int64_t> values{10, 7, 3};

std::int64_t value_of(const std::string& text) {
  const auto parsed = size_expr::parse(text);
  REQUIRE_MESSAGE(parsed.has_value(), text);
  const auto value = parsed->evaluate(names, values);
  REQUIRE_MESSAGE(value.has_value(), text);
  return *value;
}

std::string error_of(const std::string& text) {
  const auto parsed = size_expr::parse(text);
  if (!parsed) return parsed.error().message;
  const auto value = parsed->evaluate(names, values);
  return value ? "no error" : value.error().message;
}

/// A random expression together with its value, computed while it is drawn, in 128 bits. Empty
/// where it overflows or divides by zero.
struct drawn {
  std::string text;
  std::optional<std::int64_t> value;
};

drawn draw(quern::base::random_stream& random, int depth) {
  if (depth == 0 || random.chance(0.3)) {
    if (random.chance(0.5)) {
      const auto which = random.below(names.size());
      return {names[which], values[which]};
    }
    const auto value = static_cast<std::int64_t>(random.next_u64() >> random.between(1, 63));
    return {std::to_string(value), value};
  }
  const char op = "+-*/"[random.below(4)];
  const drawn left = draw(random, depth - 1);
  const drawn right = draw(random, depth - 1);
  const std::string space = random.chance(0.3) ? " " : "";
  drawn result{"(" + left.text + space + ")" + op + space + "(" + right.text + ")", std::nullopt};
  if (!left.value || !right.value || (op == '/' && *right.value == 0)) return result;
  const __int128 a = *left.value;
  const __int128 b = *right.value;
  const __int128 exact = op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b;
  if (exact >= INT64_MIN && exact <= INT64_MAX) result.value = static_cast<std::int64_t>(exact);
  return result;
}

}  // namespace

TEST_CASE("size expressions follow the usual rules") {
  CHECK(value_of("42") == 42);
  CHECK(value_of("n") == 10);
  CHECK(value_of("8*n*m") == 560);
  CHECK(value_of(" n + m * 2 ") == 24);
  CHECK(value_of("(n + m) * 2") == 34);
  CHECK(value_of("n - m - k2") == 0);
  CHECK(value_of("n - (m - k2)") == 6);
  CHECK(value_of("n / k2 * k2") == 9);
  CHECK(value_of("n*m/k2") == 23);
  CHECK(value_of("(k2-n)/2") == -3);
  CHECK(value_of("9223372036854775807") == INT64_MAX);
}

TEST_CASE("equal expressions have one spelling") {
  CHECK(size_expr::parse(" ( 8 * n ) * m ")->text() == "8*n*m");
  CHECK(size_expr::parse("8*(n*m)")->text() == "8*(n*m)");
  CHECK(size_expr::parse("((n))")->text() == "n");
  CHECK(size_expr::parse("(n+m)*2-(k2)")->text() == "(n+m)*2-k2");
  CHECK(size_expr::parse("n-(m+1)")->text() == "n-(m+1)");
  CHECK(size_expr::parse("n+(m*2)")->text() == "n+m*2");
  CHECK(size_expr::parse("007")->text() == "7");
  CHECK(size_expr(5) == *size_expr::parse("5"));
  CHECK(size_expr::parse("m*n+m")->names() == std::vector<std::string>{"m", "n"});
}

TEST_CASE("errors say what is wrong and where") {
  CHECK(error_of("").find("column 1") != std::string::npos);
  CHECK(error_of("n +").find("found the end") != std::string::npos);
  CHECK(error_of("n m").find("found 'm' at column 3") != std::string::npos);
  CHECK(error_of("-n").find("found '-'") != std::string::npos);
  CHECK(error_of("n % 2").find("found '%'") != std::string::npos);
  CHECK(error_of("(n").find("')' was expected") != std::string::npos);
  CHECK(error_of("2n").find("not an integer") != std::string::npos);
  CHECK(error_of("9223372036854775808").find("below 2^63") != std::string::npos);
  CHECK(error_of("k22 * n").find("did you mean 'k2'") != std::string::npos);
  CHECK(error_of("n/(m-7)").find("divides by zero") != std::string::npos);
  CHECK(error_of("9223372036854775807 + n").find("does not fit 64 bits") != std::string::npos);
  CHECK(error_of("9223372036854775807 * n").find("does not fit 64 bits") != std::string::npos);
  CHECK(error_of("0 - 9223372036854775807 - n").find("does not fit 64 bits") != std::string::npos);
  CHECK(error_of(std::string(300, '1')).find("300 characters") != std::string::npos);
  CHECK(error_of(std::string(60, '(') + "n" + std::string(60, ')')).find("nests") !=
        std::string::npos);
  std::string many = "n";
  for (int i = 0; i < 60; ++i)
    many += "+n";
  CHECK(error_of(many).find("more than 64") != std::string::npos);
}

TEST_CASE("random expressions agree with exact arithmetic, and their canonical form with them") {
  int with_value = 0;
  int without = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    quern::base::random_stream random(17, "size_expr", {i});
    const drawn want = draw(random, 4);
    const auto parsed = size_expr::parse(want.text);
    if (!parsed) continue;  // longer than the limits allow
    const auto got = parsed->evaluate(names, values);
    REQUIRE_MESSAGE(got.has_value() == want.value.has_value(), want.text);
    if (got) REQUIRE_MESSAGE(*got == *want.value, want.text);
    ++(got ? with_value : without);
    const auto again = size_expr::parse(parsed->text());
    REQUIRE_MESSAGE(again.has_value(), parsed->text());
    REQUIRE(again->text() == parsed->text());
    const auto same = again->evaluate(names, values);
    REQUIRE(same.has_value() == got.has_value());
    if (got) REQUIRE(*same == *got);
  }
  CHECK(with_value > 2000);
  CHECK(without > 500);
}

TEST_CASE("random text never crashes the parser") {
  const std::string alphabet("nmk2019+-*/() \t\0\xff_.", 20);
  int parsed_count = 0;
  for (std::uint64_t i = 0; i < 50000; ++i) {
    quern::base::random_stream random(18, "size_expr_text", {i});
    std::string text;
    for (auto left = random.below(12); left > 0; --left)
      text += alphabet[random.below(alphabet.size())];
    const auto parsed = size_expr::parse(text);
    if (!parsed) {
      REQUIRE(!parsed.error().message.empty());
      continue;
    }
    ++parsed_count;
    REQUIRE(size_expr::parse(parsed->text())->text() == parsed->text());
    (void)parsed->evaluate(names, values);
  }
  CHECK(parsed_count > 1000);
}
