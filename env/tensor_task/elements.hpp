// The one dispatch over element types: what an element is stored as, and what it is computed as.
// A new element type is a row here and in dtype.cpp; the compiler names what else asks for one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "env/tensor_task/dtype.hpp"
#include "env/tensor_task/float_bits.hpp"

namespace quern::env {

/// An element of bf16 or f16, by its bits.
struct bf16_word {
  std::uint16_t bits;
};
struct f16_word {
  std::uint16_t bits;
};

/// What an element is computed, compared and printed as; exact.
template <class Element>
requires std::is_arithmetic_v<Element>
constexpr Element value_of(Element element) {
  return element;
}
inline float value_of(bf16_word element) {
  return from_bf16(element.bits);
}
inline float value_of(f16_word element) {
  return from_f16(element.bits);
}
template <class Element>
using value_type_of = decltype(value_of(Element{}));

/// The element nearest to `value`.
template <class Element>
Element element_from(value_type_of<Element> value) {
  if constexpr (std::is_same_v<Element, bf16_word>)
    return {to_bf16(value)};
  else if constexpr (std::is_same_v<Element, f16_word>)
    return {to_f16(value)};
  else
    return value;
}

template <class Element>
inline constexpr bool is_floating_element = std::is_floating_point_v<value_type_of<Element>>;

/// The unsigned type that has the bits of a floating element, and how many are its mantissa.
template <class Element>
using element_bits_of =
    std::conditional_t<sizeof(Element) == 8, std::uint64_t,
                       std::conditional_t<sizeof(Element) == 4, std::uint32_t, std::uint16_t>>;
template <class Element>
inline constexpr int mantissa_bits = 0;
template <>
inline constexpr int mantissa_bits<float> = 23;
template <>
inline constexpr int mantissa_bits<double> = 52;
template <>
inline constexpr int mantissa_bits<bf16_word> = 7;
template <>
inline constexpr int mantissa_bits<f16_word> = 10;

/// Calls `visit` with an element of the C++ type that `type` is stored as, and returns its result;
/// the element is there for its type alone. Throws as unknown_dtype for a value that is no type.
template <class Visit>
decltype(auto) visit_element(dtype type, Visit&& visit) {
  switch (type) {
    case dtype::f32:
      return visit(float{});
    case dtype::f64:
      return visit(double{});
    case dtype::i32:
      return visit(std::int32_t{});
    case dtype::i64:
      return visit(std::int64_t{});
    case dtype::u8:
      return visit(std::uint8_t{});
    case dtype::bf16:
      return visit(bf16_word{});
    case dtype::f16:
      return visit(f16_word{});
  }
  unknown_dtype(type);
}

}  // namespace quern::env
