// C++'s arithmetic on numbers of known type: either the value that the compiler's code would have,
// or an error in words. Unsigned arithmetic wraps as in C++; where C++ leaves the result undefined,
// or a signed result does not fit, there is no value.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "env/lanes/cuda/launch/value_type.hpp"

namespace quern::env::plan {

enum class operation : std::uint8_t {
  literal,
  variable,
  member,  ///< .x .y .z of a dim3
  add,
  subtract,
  multiply,
  divide,
  remainder,
  shift_left,
  shift_right,
  bit_and,
  bit_or,
  bit_xor,
  equal,
  not_equal,
  less,
  greater,
  less_equal,
  greater_equal,
  minimum,
  maximum,
  negate,
  complement,
  logical_not,
  logical_and,
  logical_or,
  choose,  ///< ?:
  convert,
  advance,  ///< pointer plus or minus elements
  make_dim3,
  call,
  mathematics  ///< sqrt and its like
};

/// How a number becomes one of another type.
enum class conversion : std::uint8_t {
  operand,   ///< usual arithmetic conversions: modulo 2^N to unsigned types
  implicit,  ///< variables, arguments, results: the value must fit
  written    ///< a cast: modulo 2^N to unsigned types; to signed types the value must fit
};

/// Whatever an expression can be. Integers lie in word[0] (unsigned ones as their bits), floats in
/// `real`; a pointer is offset, plan_buffer, index; a dim3 is its three members.
struct value {
  std::array<std::int64_t, 3> word{};
  double real = 0;
  bool set = true;  ///< false: a variable that has no value yet
};

/// Empty when there is a result; otherwise what is wrong, for a person.
using fault = std::string;

fault convert_number(scalar from, scalar to, conversion how, const value& in, value& out);

/// negate, complement, logical_not (its result is a bool) of a promoted operand.
fault apply_unary(operation what, scalar type, const value& in, value& out);

/// add ... maximum of operands that have `type` both, except shifts, whose right operand has type
/// `right_type`. Comparisons result in a bool.
fault apply_binary(operation what, scalar type, const value& left, scalar right_type,
                   const value& right, value& out);

bool is_comparison(operation what);

/// As a person writes it: "-3", "18446744073709551615", "2.5", "true".
std::string to_text(scalar type, const value& what);

}  // namespace quern::env::plan
