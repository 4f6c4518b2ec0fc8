// How values cross between processes: floats as bits, numbers as blocks, structs field by field.
// Knows the form that CAF's inspectors want, but not CAF.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/hash.hpp"

namespace quern::actors {

/// A double that crosses the wire as its bit pattern, so that every value arrives as it was sent.
struct float_bits {
  std::uint64_t bits = 0;
  float_bits() = default;
  // Implicit on purpose: a message field is assigned from a double and read as one.
  float_bits(double value) : bits(std::bit_cast<std::uint64_t>(value)) {}
  operator double() const { return std::bit_cast<double>(bits); }
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, float_bits& x) {
  return f(x.bits);
}

/// Numbers as one block of bytes: vectors of int32 or float cross the wire 10 times slower one by
/// one. Both ends are little-endian machines of one build.
template <class Number>
std::string to_block(const std::vector<Number>& values) {
  static_assert(std::is_trivially_copyable_v<Number>);
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
}
template <class Number>
std::int64_t count_in_block(const std::string& block) {
  return static_cast<std::int64_t>(block.size() / sizeof(Number));
}
template <class Number>
std::vector<Number> from_block(const std::string& block) {
  static_assert(std::is_trivially_copyable_v<Number>);
  std::vector<Number> values(block.size() / sizeof(Number));
  std::copy_n(block.data(), values.size() * sizeof(Number), reinterpret_cast<char*>(values.data()));
  return values;
}

}  // namespace quern::actors

namespace quern::base {

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, hash128& x) {
  return f(x.high, x.low);
}

}  // namespace quern::base

/// A message struct and its fields in order, as CAF's inspectors take them. No raw float or double:
/// use float_bits.
#define QUERN_MESSAGE(Type, first, ...)                            \
  template <class Inspector>                                       \
  typename Inspector::result_type inspect(Inspector& f, Type& x) { \
    return f(x.first QUERN_FIELDS(x, __VA_ARGS__));                \
  }
#define QUERN_FIELDS(x, ...) __VA_OPT__(QUERN_EXPAND(QUERN_FIELD_1(x, __VA_ARGS__)))
#define QUERN_EXPAND(...) QUERN_EXPAND2(QUERN_EXPAND2(QUERN_EXPAND2(QUERN_EXPAND2(__VA_ARGS__))))
#define QUERN_EXPAND2(...) QUERN_EXPAND1(QUERN_EXPAND1(QUERN_EXPAND1(__VA_ARGS__)))
#define QUERN_EXPAND1(...) __VA_ARGS__
#define QUERN_PARENS ()
#define QUERN_FIELD_1(x, field, ...) \
  , x.field __VA_OPT__(QUERN_FIELD_AGAIN QUERN_PARENS(x, __VA_ARGS__))
#define QUERN_FIELD_AGAIN() QUERN_FIELD_1
