// Numbers as they are written: literals, the constants of <climits> and <cfloat>, numeric_limits.
#include <array>
#include <cfloat>
#include <charconv>
#include <climits>
#include <limits>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {
namespace {

struct named_integer {
  std::string_view name;
  scalar type;
  std::int64_t word;
};

constexpr auto named_integers = std::to_array<named_integer>({
    {"INT_MAX", scalar::int_type, INT_MAX},
    {"INT_MIN", scalar::int_type, INT_MIN},
    {"INT32_MAX", scalar::int_type, INT_MAX},
    {"UINT_MAX", scalar::unsigned_int, UINT_MAX},
    {"UINT32_MAX", scalar::unsigned_int, UINT_MAX},
    {"LONG_MAX", scalar::long_int, LONG_MAX},
    {"INT64_MAX", scalar::long_int, LONG_MAX},
    {"LLONG_MAX", scalar::long_long, LLONG_MAX},
    {"SIZE_MAX", scalar::unsigned_long, -1},
});

struct named_real {
  std::string_view name;
  scalar type;
  double real;
};

constexpr auto named_reals = std::to_array<named_real>({
    {"FLT_MAX", scalar::float_type, FLT_MAX},
    {"FLT_MIN", scalar::float_type, FLT_MIN},
    {"FLT_EPSILON", scalar::float_type, FLT_EPSILON},
    {"DBL_MAX", scalar::double_type, DBL_MAX},
    {"DBL_EPSILON", scalar::double_type, DBL_EPSILON},
    {"INFINITY", scalar::float_type, std::numeric_limits<double>::infinity()},
    {"M_PI", scalar::double_type, 3.14159265358979323846},
});

bool lower_is(char c, char lower) {
  return c == lower || c == lower - 'a' + 'A';
}

// Floating literals; false where the text is none.
bool read_real(std::string text, scalar& type, double& real) {
  type = scalar::double_type;
  const bool hexadecimal = text.size() > 1 && text[0] == '0' && lower_is(text[1], 'x');
  if (lower_is(text.back(), 'f')) {
    type = scalar::float_type;
    text.pop_back();
  }
  const char* begin = text.data() + (hexadecimal ? 2 : 0);
  const char* end = text.data() + text.size();
  const auto shape = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  float narrow = 0;
  const auto read = type == scalar::float_type ? std::from_chars(begin, end, narrow, shape)
                                               : std::from_chars(begin, end, real, shape);
  if (type == scalar::float_type) real = static_cast<double>(narrow);
  return read.ec == std::errc() && read.ptr == end;
}

// Integer literals with the first type that holds them, as C++ has it.
bool read_integer(std::string_view text, scalar& type, std::int64_t& word) {
  bool without_sign = false;
  int longs = 0;
  while (!text.empty() && (lower_is(text.back(), 'u') || lower_is(text.back(), 'l'))) {
    if (lower_is(text.back(), 'u')) {
      if (without_sign) return false;
      without_sign = true;
    } else {
      ++longs;
    }
    text.remove_suffix(1);
  }
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (lower_is(text[1], 'x') || lower_is(text[1], 'b'))) {
    base = lower_is(text[1], 'x') ? 16 : 2;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (longs > 2 || text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size())
    return false;
  word = static_cast<std::int64_t>(number);
  const bool any_sign = base != 10;
  if (longs == 0 && !without_sign && number <= INT_MAX) {
    type = scalar::int_type;
  } else if (longs == 0 && (without_sign || any_sign) && number <= UINT_MAX) {
    type = scalar::unsigned_int;
  } else if (!without_sign && number <= LONG_MAX) {
    type = longs == 2 ? scalar::long_long : scalar::long_int;
  } else if (without_sign || any_sign) {
    type = longs == 2 ? scalar::unsigned_long_long : scalar::unsigned_long;
  } else {
    return false;
  }
  return true;
}

}  // namespace

node_id parser::parse_number() {
  const plan_token& token = peek();
  std::string text;
  for (const char c : token.text)
    if (c != '\'') text += c;
  const bool hexadecimal = text.size() > 1 && text[0] == '0' && lower_is(text[1], 'x');
  const bool floating = text.find('.') != std::string::npos ||
                        text.find_first_of(hexadecimal ? "pP" : "eE") != std::string::npos;
  scalar type = scalar::int_type;
  value known;
  const bool read =
      floating ? read_real(text, type, known.real) : read_integer(text, type, known.word[0]);
  if (!read) {
    fail(token, fmt::format("found {}, allowed are numbers that fit int64_t, uint64_t, float or "
                            "double",
                            found()));
    return 0;
  }
  skip();
  return literal(number_of(type), known, place_of(token));
}

// INT_MAX and its like; no_node where the name is none.
node_id parser::parse_named_number() {
  const plan_token& name = peek();
  for (const named_integer& one : named_integers) {
    if (one.name != name.text) continue;
    value known;
    known.word[0] = one.word;
    skip();
    return literal(number_of(one.type), known, place_of(name));
  }
  for (const named_real& one : named_reals) {
    if (one.name != name.text) continue;
    value known;
    known.real = one.real;
    skip();
    return literal(number_of(one.type), known, place_of(name));
  }
  return no_node;
}

// std::numeric_limits<T>::max(), with the cursor behind `numeric_limits`.
node_id parser::parse_numeric_limit() {
  const plan_token& first = peek();
  expect("<", "behind numeric_limits");
  type_reading reading;
  if (failed() || !read_type(reading)) return 0;
  expect(">", "behind the type");
  expect("::", "behind numeric_limits<type>");
  if (failed()) return 0;
  const std::string which = peek().text;
  skip();
  expect("(", "behind numeric_limits<type>::" + which);
  expect(")", "behind numeric_limits<type>::" + which);
  if (failed()) return 0;
  value known;
  const scalar type = reading.type.number;
  bool right = reading.type.is_number();
  if (right && is_floating(type)) {
    const bool single = type == scalar::float_type;
    const double most = single ? static_cast<double>(FLT_MAX) : DBL_MAX;
    if (which == "max") {
      known.real = most;
    } else if (which == "lowest") {
      known.real = -most;
    } else if (which == "min") {
      known.real = single ? static_cast<double>(FLT_MIN) : DBL_MIN;
    } else if (which == "epsilon") {
      known.real = single ? static_cast<double>(FLT_EPSILON) : DBL_EPSILON;
    } else if (which == "infinity") {
      known.real = std::numeric_limits<double>::infinity();
    } else {
      right = false;
    }
  } else if (right) {
    const int bits = type == scalar::boolean ? 1 : 8 * size_of(type) - (is_signed(type) ? 1 : 0);
    const std::uint64_t most = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    if (which == "max") {
      known.word[0] = static_cast<std::int64_t>(most);
    } else if (which == "min" || which == "lowest") {
      known.word[0] = is_signed(type) ? -static_cast<std::int64_t>(most) - 1 : 0;
    } else {
      right = false;
    }
  }
  if (!right) {
    fail(first, fmt::format("numeric_limits<{}>::{}: allowed are max, min, lowest, epsilon and "
                            "infinity of numbers",
                            spelling(reading.type), which));
    return 0;
  }
  return literal(number_of(type), known, place_of(first));
}

}  // namespace quern::env::plan
