// The C++ types that a launch plan knows: numbers with their ranks and ranges, pointers to
// anything, dim3 and the stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "env/tensor_task/dtype.hpp"

namespace quern::env::plan {

/// Arithmetic types. int64_t is `long`, as on every 64-bit Linux: long and long long are different
/// types of one size.
enum class scalar : std::uint8_t {
  boolean,
  character,  ///< plain char, signed
  signed_char,
  unsigned_char,
  short_int,
  unsigned_short,
  int_type,
  unsigned_int,
  long_int,
  unsigned_long,
  long_long,
  unsigned_long_long,
  float_type,
  double_type
};

std::string_view name_of(scalar type);
int size_of(scalar type);
bool is_signed(scalar type);
bool is_floating(scalar type);

/// Integral promotion, and the usual arithmetic conversions of two operands.
scalar promoted(scalar type);
scalar common_of(scalar left, scalar right);

enum class form : std::uint8_t {
  nothing,  ///< void
  number,
  opaque,  ///< vector types, half and bfloat16, classes of the candidate
  dim3,
  stream,
  arguments,  ///< void* args[] of a cooperative launch
  null        ///< nullptr
};

struct value_type {
  form base = form::nothing;
  scalar number = scalar::int_type;  ///< of form number
  std::string name;                  ///< of form opaque
  std::uint32_t bytes = 0;           ///< of form opaque; 0 where unknown
  int stars = 0;                     ///< 1: pointer to base
  bool constant = false;             ///< the base is const

  [[nodiscard]] bool is_pointer() const { return stars > 0; }
  [[nodiscard]] bool is_number() const { return stars == 0 && base == form::number; }
  [[nodiscard]] bool is_integer() const { return is_number() && !is_floating(number); }
  [[nodiscard]] bool is(form which) const { return stars == 0 && base == which; }
};

value_type number_of(scalar type);
value_type plain(form base);
value_type pointer_to(value_type pointee);
/// What a pointer points to; needs is_pointer().
value_type pointee_of(value_type pointer);

/// "const float*".
std::string spelling(const value_type& type);
/// sizeof; 0 where unknown.
std::uint32_t size_of(const value_type& type);

/// Equal apart from const.
bool same_base(const value_type& left, const value_type& right);
/// Equal as C++ types.
bool same(const value_type& left, const value_type& right);
/// Whether a pointer (or nullptr) converts implicitly.
bool pointer_converts(const value_type& from, const value_type& to);

/// Types that every file knows without a declaration: int64_t, float4, __half, dim3,
/// cudaStream_t, ... Keywords are not among them.
std::optional<value_type> known_type(std::string_view name);

/// The element type of a task's tensor.
value_type type_of(dtype type);
/// Whether both are numbers of one size and kind (long and long long, say), or pointers to such, or
/// one other type; const does not matter.
bool same_representation(const value_type& left, const value_type& right);

}  // namespace quern::env::plan
