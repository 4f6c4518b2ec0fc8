// Part of quern_device.h: AT_DISPATCH for the types that candidates dispatch on.
#pragma once

#ifdef QUERN_SLIM_HALVES
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#endif

#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                   \
  [&] {                                                                       \
    const ::c10::ScalarType quern_slim_type_ = (TYPE);                        \
    switch (quern_slim_type_) {                                               \
      __VA_ARGS__                                                             \
      default:                                                                \
        break;                                                                \
    }                                                                         \
    TORCH_CHECK_NOT_IMPLEMENTED(false, '"', NAME, "\" not implemented for '", \
                                ::c10::toString(quern_slim_type_), "'");      \
  }()
#define QUERN_SLIM_CASE(enumerator, type, ...) \
  case ::c10::ScalarType::enumerator: {        \
    using scalar_t [[maybe_unused]] = type;    \
    return __VA_ARGS__();                      \
  }
#define QUERN_SLIM_FLOATING(...) \
  QUERN_SLIM_CASE(Double, double, __VA_ARGS__) QUERN_SLIM_CASE(Float, float, __VA_ARGS__)
#define QUERN_SLIM_INTEGRAL(...)                                                          \
  QUERN_SLIM_CASE(Byte, std::uint8_t, __VA_ARGS__)                                        \
  QUERN_SLIM_CASE(Char, std::int8_t, __VA_ARGS__)                                         \
  QUERN_SLIM_CASE(Int, int, __VA_ARGS__) QUERN_SLIM_CASE(Long, std::int64_t, __VA_ARGS__) \
      QUERN_SLIM_CASE(Short, std::int16_t, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, QUERN_SLIM_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, QUERN_SLIM_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, QUERN_SLIM_FLOATING(__VA_ARGS__) QUERN_SLIM_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                             \
                     QUERN_SLIM_FLOATING(__VA_ARGS__)        \
                         QUERN_SLIM_CASE(Half, ::c10::Half, __VA_ARGS__))
namespace c10 {
template <ScalarType>
struct quern_slim_cpp;
template <>
struct quern_slim_cpp<ScalarType::Half> {
  using type = Half;
};
template <>
struct quern_slim_cpp<ScalarType::BFloat16> {
  using type = BFloat16;
};
template <>
struct quern_slim_cpp<ScalarType::Bool> {
  using type = bool;
};
}  // namespace c10
#define QUERN_SLIM_GIVEN(value, ...)                                               \
  case value: {                                                                    \
    using scalar_t [[maybe_unused]] = typename ::c10::quern_slim_cpp<value>::type; \
    return __VA_ARGS__();                                                          \
  }
#define AT_DISPATCH_FLOATING_TYPES_AND(one, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                             \
                     QUERN_SLIM_FLOATING(__VA_ARGS__) QUERN_SLIM_GIVEN(one, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(one, two, TYPE, NAME, ...)                       \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                         \
                     QUERN_SLIM_FLOATING(__VA_ARGS__) QUERN_SLIM_GIVEN(one, __VA_ARGS__) \
                         QUERN_SLIM_GIVEN(two, __VA_ARGS__))
