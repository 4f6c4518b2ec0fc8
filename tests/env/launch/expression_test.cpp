// The evaluator against the compiler: the same expressions, written twice or made at random, have
// the same types and values, and no value exactly where C++ leaves it open or it does not fit.
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>

#include "base/random.hpp"
#include "env/launch/plan_fixture.hpp"

using namespace quern;

namespace {

using number =
    std::variant<bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, long,
                 unsigned long, long long, unsigned long long, float, double>;

constexpr const char* type_names[] = {
    "bool",  "char",         "signed char", "unsigned char", "short",     "unsigned short",
    "int",   "unsigned int", "long",        "unsigned long", "long long", "unsigned long long",
    "float", "double"};

/// A value with its type, or the certainty that there is none (of that type).
struct outcome {
  number held;
  bool open = false;
};

template <class Number>
std::string printed(Number what) {
  if constexpr (std::is_floating_point_v<Number>) {
    return std::isnan(what) ? "nan" : fmt::format("{:a}", what);
  } else if constexpr (sizeof(Number) == 1) {
    return fmt::format("{}", static_cast<int>(what));
  } else {
    return fmt::format("{}", what);
  }
}

std::string text_of(const number& what) {
  return std::string(type_names[what.index()]) + " " +
         std::visit([](auto one) { return printed(one); }, what);
}

template <class Number>
number read_as(const env::plan_scalar& bytes) {
  return test::number_in<Number>(bytes);
}

// What the plan says: "long 12", or the error. `auto` keeps the type, a template shows it.
std::string planned(const std::string& expression, std::int64_t n, std::int64_t m) {
  const std::string file =
      "template <typename T> __global__ void show(T value) {}\n"
      "extern \"C\" void kernel(const float* x, const int* ids, float* y, int64_t n, int64_t m, "
      "void* "
      "w, cudaStream_t s) {\n  auto value = " +
      expression + ";\n  show<<<1, 1, 0, s>>>(value);\n}\n";
  const auto plan = env::parse_launch_plan(file, test::plan_signature());
  if (!plan) return "parse: " + env::to_string(plan.error());
  const auto steps = plan->steps(test::plan_call(n, m));
  if (!steps) return "open: " + steps.error().message;
  const auto& launch = std::get<env::kernel_launch>(steps->at(0));
  const auto& bytes = std::get<env::plan_scalar>(launch.arguments.at(0));
  const std::string type = plan->kernels()[0].parameters[0].type;
  using reader = number (*)(const env::plan_scalar&);
  constexpr reader readers[] = {
      read_as<bool>,  read_as<char>,           read_as<signed char>, read_as<unsigned char>,
      read_as<short>, read_as<unsigned short>, read_as<int>,         read_as<unsigned>,
      read_as<long>,  read_as<unsigned long>,  read_as<long long>,   read_as<unsigned long long>,
      read_as<float>, read_as<double>};
  for (std::size_t i = 0; i < std::size(type_names); ++i)
    if (type == type_names[i]) return text_of(readers[i](bytes));
  return "no such type: " + type;
}

// ---- the same text, compiled ----

struct compiled_case {
  const char* text;
  number (*value)(std::int64_t n, std::int64_t m);
};

#define BOTH(...)                                                                                    \
  {                                                                                                  \
#__VA_ARGS__, [](std::int64_t n, std::int64_t m) -> number { (void)n; (void)m; return __VA_ARGS__; } \
  }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wbool-operation"
const compiled_case compiled_cases[] = {
    BOTH(1 + 2 * 3),
    BOTH((1 + 2) * 3),
    BOTH(n + 255 >> 8),
    BOTH(n + (255 >> 8)),
    BOTH(n - m - 3),
    BOTH(n - (m - 3)),
    BOTH(n / m * m),
    BOTH(n % m + n / m),
    BOTH(-n / m),
    BOTH(-n % m),
    BOTH(-7 / 2 - -7 % 2),
    BOTH(1 << 4 | 3 & 6 ^ 5),
    BOTH((1 << 4 | 3) & (6 ^ 5)),
    BOTH(n<m == m> n),
    BOTH(n<5 || m> 3 && n != m),
    BOTH(!n + !!m),
    BOTH(~n & 0xff),
    BOTH(~0u >> 1),
    BOTH(-1 < 0u),
    BOTH(-1L < 0u),
    BOTH(-1LL < 0ul),
    BOTH(n > 3 ? m : 7),
    BOTH(n > 3 ? 1 : 2.5f),
    BOTH(n > 3 ? 1.5f : 2.5),
    BOTH(n > 3 ? m > 3 ? 1 : 2 : 3),
    BOTH(true + true),
    BOTH(true ? false : true),
    BOTH(1u - 2u),
    BOTH(0ul - 1),
    BOTH(4294967295u * 3u),
    BOTH(4294967295u + 1),
    BOTH(0xFFFFFFFF),
    BOTH(0x7FFFFFFF),
    BOTH(2147483648),
    BOTH(0x100000000),
    BOTH(037777777777),
    BOTH(0b101u),
    BOTH(1'000'000'007LL * 3),
    BOTH(18446744073709551615ull),
    BOTH(0x8000000000000000),
    BOTH(1e3),
    BOTH(1e-5f * 3),
    BOTH(.5f + 1.),
    BOTH(0x1.8p3f),
    BOTH(1 / 3.0f),
    BOTH(1 / 3 * 1.0),
    BOTH(float(n) / m),
    BOTH((double)n / (float)m),
    BOTH((int)2.999 + int(-2.999f)),
    BOTH((unsigned char)300 + (unsigned)-1),
    BOTH(static_cast<short>(m) * static_cast<unsigned short>(n)),
    BOTH((signed char)-5 >> 1),
    BOTH(-5 >> 1),
    BOTH((size_t)n * sizeof(float) + 255 & ~255),
    BOTH((n * 4 + 255) / 256 * 256),
    BOTH((unsigned long long)m << 40),
    BOTH(n == m ? (long long)n : (unsigned)m),
    BOTH(sizeof(double) * n - sizeof(char)),
    BOTH(std::max(n, (int64_t)m) + std::min(3, 4)),
    BOTH(std::max<int64_t>(n, 7)),
    BOTH(std::min(2.5f, 1.5f)),
    BOTH(std::sqrt(2.0f)),
    BOTH(std::sqrt(2.0)),
    BOTH(std::sqrt(2)),
    BOTH(sqrtf(2)),
    BOTH(std::pow(2.0f, 3)),
    BOTH(std::pow(2.0f, 0.5f)),
    BOTH(powf(3, 2)),
    BOTH(expf(1) + logf(2) + log2f(8) + exp2f(3)),
    BOTH(std::exp(1.0f) * std::log(2.0)),
    BOTH(std::floor(-2.5f) + std::ceil(2.25f) + std::round(2.5f) + std::trunc(-2.5f)),
    BOTH(std::fabs(-2.5f) + std::abs(-3) + std::abs(-2.5)),
    BOTH(tanhf(0.5f) + sinf(1) + cosf(1)),
    BOTH(std::fmax(1, 2.5f)),
    BOTH(fminf(1, 2.5f)),
    BOTH(1.0f / std::sqrt((float)m)),
    BOTH(n&& m || !n),
    BOTH((n & n - 1) == 0),
    BOTH(n ^ m << 2),
    BOTH(+(short)3),
    BOTH(- - -n),
    BOTH(2.0f == 2.0),
    BOTH(0.1f == 0.1),
    BOTH(16777217 == 16777216.0f),
    BOTH(n != m != true),
    BOTH((bool)n * 3),
    BOTH(bool(0.5f)),
};
#pragma GCC diagnostic pop

// ---- trees made at random, evaluated by themselves ----

template <class Number>
constexpr bool whole = std::is_integral_v<Number>;

// To as C++ converts, or open where the value would not survive: casts to a signed type.
template <class To, class From>
outcome cast(From from) {
  if constexpr (std::is_same_v<To, bool>) {
    return {from != From{}};
  } else if constexpr (!whole<From> && whole<To>) {
    const double kept = std::trunc(static_cast<double>(from));
    const double above = std::ldexp(1.0, std::numeric_limits<To>::digits);
    const double below = std::is_signed_v<To> ? -above : 0;
    if (!(kept >= below && kept < above)) return {To{}, true};
    return {static_cast<To>(from)};
  } else if constexpr (whole<To> && std::is_signed_v<To>) {
    const auto wide = static_cast<__int128>(from);
    const bool fits =
        wide >= std::numeric_limits<To>::min() && wide <= std::numeric_limits<To>::max();
    return {fits ? static_cast<To>(from) : To{}, !fits};
  } else {
    return {static_cast<To>(from)};
  }
}

template <class Left, class Right>
outcome arithmetic(char sign, Left left, Right right) {
  using result = decltype(left + right);
  const auto a = static_cast<result>(left);
  const auto b = static_cast<result>(right);
  if constexpr (!whole<result>) {
    const result value = sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : a / b;
    return {value};
  } else {
    if ((sign == '/' || sign == '%') && b == 0) return {result{}, true};
    result value{};
    bool open = false;
    switch (sign) {
      case '+':
        open = __builtin_add_overflow(a, b, &value) && std::is_signed_v<result>;
        break;
      case '-':
        open = __builtin_sub_overflow(a, b, &value) && std::is_signed_v<result>;
        break;
      case '*':
        open = __builtin_mul_overflow(a, b, &value) && std::is_signed_v<result>;
        break;
      case '&':
        value = a & b;
        break;
      case '|':
        value = a | b;
        break;
      case '^':
        value = a ^ b;
        break;
      default:
        if (std::is_signed_v<result> && a == std::numeric_limits<result>::min() &&
            b == static_cast<result>(-1))
          return {result{}, true};
        value = sign == '/' ? a / b : a % b;
    }
    return {open ? result{} : value, open};
  }
}

template <class Left, class Right>
outcome shifted(bool left_shift, Left left, Right right) {
  if constexpr (!whole<Left> || !whole<Right>) {
    return {0, true};
  } else {
    using result = decltype(+left);
    const auto count = +right;
    constexpr int bits = 8 * sizeof(result);
    if (count < 0 || count >= static_cast<decltype(count)>(bits)) return {result{}, true};
    const auto by = static_cast<int>(count);
    if (!left_shift) return {static_cast<result>(static_cast<result>(left) >> by)};
    if constexpr (std::is_signed_v<result>) {
      const __int128 wide = static_cast<__int128>(left) * (static_cast<__int128>(1) << by);
      const bool fits =
          wide >= std::numeric_limits<result>::min() && wide <= std::numeric_limits<result>::max();
      return {fits ? static_cast<result>(wide) : result{}, !fits};
    } else {
      return {static_cast<result>(static_cast<result>(left) << by)};
    }
  }
}

template <class Left, class Right>
bool compared(int which, Left left, Right right) {
  using common = decltype(left + right);
  const auto a = static_cast<common>(left);
  const auto b = static_cast<common>(right);
  switch (which) {
    case 0:
      return a < b;
    case 1:
      return a > b;
    case 2:
      return a <= b;
    case 3:
      return a >= b;
    case 4:
      return a == b;
    default:
      return a != b;
  }
}

bool is_true(const number& what) {
  return std::visit([](auto one) { return one != decltype(one){}; }, what);
}

bool is_whole(const number& what) {
  return what.index() < 12;
}

struct made {
  std::string text;
  outcome value;
};

class tree_maker {
 public:
  tree_maker(base::random_stream& random, std::int64_t n, std::int64_t m)
      : random_(random), n_(n), m_(m) {}

  made expression(int depth) {
    if (depth == 0 || random_.chance(0.1)) return leaf();
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        return arithmetic_of(depth);
      case 3:
        return shift_of(depth);
      case 4:
        return comparison_of(depth);
      case 5:
        return logic_of(depth);
      case 6:
        return cast_of(depth);
      default:
        return random_.chance(0.5) ? unary_of(depth) : choice_of(depth);
    }
  }

 private:
  made leaf() {
    switch (random_.below(12)) {
      case 0:
        return {"n", {static_cast<long>(n_)}};
      case 1:
        return {"m", {static_cast<long>(m_)}};
      case 2:
        return {"(unsigned char)200", {static_cast<unsigned char>(200)}};
      case 3:
        return {"(short)-7", {static_cast<short>(-7)}};
      case 4:
        return {"true", {true}};
      case 5:
        return {"2.75f", {2.75f}};
      case 6:
        return {"1e10", {1e10}};
      case 7:
        return {"0xFFFFFFFFu", {0xFFFFFFFFu}};
      case 8:
        return {"2147483647", {2147483647}};
      case 9:
        return {"9223372036854775807LL", {9223372036854775807LL}};
      case 10:
        return {"3ull", {3ull}};
      default: {
        const int small = static_cast<int>(random_.below(70));
        return {std::to_string(small), {small}};
      }
    }
  }

  made arithmetic_of(int depth) {
    const made l = expression(depth - 1);
    const made r = expression(depth - 1);
    const bool integers = is_whole(l.value.held) && is_whole(r.value.held);
    const char sign = "+-*/%&|^"[random_.below(integers ? 8 : 4)];
    outcome value = std::visit([&](auto a, auto b) { return arithmetic(sign, a, b); }, l.value.held,
                               r.value.held);
    value.open = value.open || l.value.open || r.value.open;
    return {"(" + l.text + " " + sign + " " + r.text + ")", value};
  }

  made shift_of(int depth) {
    const made l = expression(depth - 1);
    made right = leaf();
    if (random_.chance(0.8)) {
      const int small = static_cast<int>(random_.below(34));
      right = {std::to_string(small), {small}};
    }
    if (!is_whole(l.value.held) || !is_whole(right.value.held)) return l;
    const bool left = random_.chance(0.5);
    outcome value = std::visit([&](auto a, auto b) { return shifted(left, a, b); }, l.value.held,
                               right.value.held);
    value.open = value.open || l.value.open || right.value.open;
    return {"(" + l.text + (left ? " << " : " >> ") + right.text + ")", value};
  }

  made comparison_of(int depth) {
    const made l = expression(depth - 1);
    const made r = expression(depth - 1);
    const int which = static_cast<int>(random_.below(6));
    const bool value = std::visit([&](auto a, auto b) { return compared(which, a, b); },
                                  l.value.held, r.value.held);
    constexpr const char* signs[] = {" < ", " > ", " <= ", " >= ", " == ", " != "};
    return {"(" + l.text + signs[which] + r.text + ")", {value, l.value.open || r.value.open}};
  }

  made logic_of(int depth) {
    const made l = expression(depth - 1);
    const made r = expression(depth - 1);
    const bool both = random_.chance(0.5);
    const bool first = is_true(l.value.held);
    const bool second_counts = first == both;
    const bool value = second_counts ? is_true(r.value.held) : first;
    const bool open = l.value.open || (second_counts && r.value.open);
    return {"(" + l.text + (both ? " && " : " || ") + r.text + ")", {value, open}};
  }

  made unary_of(int depth) {
    const made one = expression(depth - 1);
    const char sign = "-!~+"[random_.below(is_whole(one.value.held) ? 4 : 2)];
    outcome value = std::visit(
        [&](auto a) -> outcome {
          using result = decltype(+a);
          if (sign == '!') return {a == decltype(a){}};
          if (sign == '+') return {+a};
          if constexpr (whole<result>) {
            if (sign == '~') return {static_cast<result>(~static_cast<result>(a))};
            const auto promoted = static_cast<result>(a);
            if (std::is_signed_v<result> && promoted == std::numeric_limits<result>::min())
              return {result{}, true};
            return {static_cast<result>(result{} - promoted)};
          } else {
            return {static_cast<result>(-a)};
          }
        },
        one.value.held);
    value.open = value.open || one.value.open;
    return {std::string("(") + sign + " " + one.text + ")", value};
  }

  made choice_of(int depth) {
    const made c = expression(depth - 1);
    const made l = expression(depth - 1);
    const made r = expression(depth - 1);
    const bool first = is_true(c.value.held);
    outcome value = std::visit(
        [&](auto a, auto b) -> outcome {
          using result = std::remove_cvref_t<decltype(true ? a : b)>;
          return {static_cast<result>(first ? static_cast<result>(a) : static_cast<result>(b))};
        },
        l.value.held, r.value.held);
    value.open = c.value.open || (first ? l.value.open : r.value.open);
    return {"(" + c.text + " ? " + l.text + " : " + r.text + ")", value};
  }

  made cast_of(int depth) {
    const made one = expression(depth - 1);
    const number to = any_type(random_.below(std::size(type_names)));
    outcome value =
        std::visit([&](auto a, auto wanted) -> outcome { return cast<decltype(wanted)>(a); },
                   one.value.held, to);
    value.open = value.open || one.value.open;
    const std::string name = type_names[to.index()];
    return {random_.chance(0.5) ? "(" + name + ")" + one.text
                                : "static_cast<" + name + ">(" + one.text + ")",
            value};
  }

  static number any_type(std::size_t index) {
    const number all[] = {false,
                          char{},
                          static_cast<signed char>(0),
                          static_cast<unsigned char>(0),
                          short{},
                          static_cast<unsigned short>(0),
                          0,
                          0u,
                          0l,
                          0ul,
                          0ll,
                          0ull,
                          0.0f,
                          0.0};
    return all[index];
  }

  base::random_stream& random_;
  std::int64_t n_;
  std::int64_t m_;
};

}  // namespace

TEST_CASE("expressions mean what the compiler makes of them") {
  for (const compiled_case& one : compiled_cases) {
    CAPTURE(one.text);
    for (const auto& [n, m] : {std::pair{1000, 8}, std::pair{7, 7}, std::pair{3, 100}})
      CHECK(planned(one.text, n, m) == text_of(one.value(n, m)));
  }
}

TEST_CASE("random expressions of all types have the compiler's types and values") {
  int with_value = 0;
  int open = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    base::random_stream random(11, "launch_expression", {i});
    const std::int64_t n = random.between(-5, 5000);
    const std::int64_t m = random.chance(0.2) ? 4294967296 : random.between(1, 64);
    const made tree = tree_maker(random, n, m).expression(1 + static_cast<int>(random.below(4)));
    CAPTURE(tree.text);
    CAPTURE(n);
    CAPTURE(m);
    const std::string found = planned(tree.text, n, m);
    if (tree.value.open) {
      ++open;
      REQUIRE(found.substr(0, 6) == "open: ");
    } else {
      ++with_value;
      REQUIRE(found == text_of(tree.value.held));
    }
  }
  CHECK(with_value > 8000);
  CHECK(open > 500);
}
