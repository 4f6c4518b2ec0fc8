// What stands before a candidate of lane `cuda`, and which headers it may name.
#include "env/lanes/cuda/screen/cuda_prelude.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace quern::env {
namespace {

// clang-format off
constexpr std::string_view headers[] = {
    "cuda_runtime.h", "cuda_runtime_api.h", "cuda.h", "cudaTypedefs.h",
    "device_launch_parameters.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_fp6.h",
    "cuda_fp4.h", "cooperative_groups.h", "cooperative_groups/reduce.h",
    "cooperative_groups/scan.h", "cooperative_groups/memcpy_async.h", "mma.h", "cuda_pipeline.h",
    "cuda_pipeline_primitives.h", "cuda_awbarrier.h", "cuda_awbarrier_primitives.h",
    "math_constants.h", "vector_types.h", "vector_functions.h", "cuComplex.h", "cuda/atomic",
    "cuda/barrier", "cuda/pipeline", "cuda/ptx", "cuda/functional", "cuda/cmath", "cuda/std/",
    "cub/", "thrust/",
    // The host's; what NVRTC lacks of them is in nvrtc_headers().
    "cstdint", "stdint.h", "cstddef", "stddef.h", "cmath", "math.h", "climits", "limits.h",
    "cfloat", "float.h", "limits", "cstring", "string.h", "algorithm", "type_traits", "utility",
    "array", "tuple", "vector", "map", "unordered_map", "deque", "functional", "numeric", "memory",
    "iterator"};

constexpr std::string_view library_headers[] = {
    "cublas_v2.h", "cublasLt.h", "cublas.h", "cudnn.h", "cufft.h", "cusparse.h", "cusolverDn.h",
    "curand_kernel.h", "curand.h", "cutlass/", "cute/"};
// clang-format on

// The same types and values as in CUDA's own <cuda/std/cstdint> and <cuda/std/climits>, whose
// definitions may follow.
constexpr const char* fixed_width = R"(#pragma once
typedef signed char int8_t;
typedef signed short int16_t;
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t; using ::size_t; using ::ptrdiff_t;
}
#include <climits>
#ifndef INT32_MAX
#define INT8_MIN   SCHAR_MIN
#define INT16_MIN  SHRT_MIN
#define INT32_MIN  INT_MIN
#define INT64_MIN  LLONG_MIN
#define INT8_MAX   SCHAR_MAX
#define INT16_MAX  SHRT_MAX
#define INT32_MAX  INT_MAX
#define INT64_MAX  LLONG_MAX
#define UINT8_MAX  UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULLONG_MAX
#define SIZE_MAX UINT64_MAX
#endif
)";

constexpr const char* integer_limits = R"(#pragma once
#ifndef CHAR_BIT
#define CHAR_BIT 8
#define SCHAR_MIN         (-128)
#define SCHAR_MAX         127
#define UCHAR_MAX         255
#define SHRT_MIN  (-SHRT_MAX - 1)
#define SHRT_MAX  0x7fff
#define USHRT_MAX 0xffff
#define INT_MIN   (-INT_MAX - 1)
#define INT_MAX   0x7fffffff
#define UINT_MAX  0xffffffff
#define LLONG_MIN  (-LLONG_MAX - 1)
#define LLONG_MAX  0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffUL
#define LONG_MIN  (-LONG_MAX - 1)
#define LONG_MAX  LLONG_MAX
#define ULONG_MAX ULLONG_MAX
#endif
)";

constexpr const char* floating_limits = R"(#pragma once
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-016
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#endif
)";

constexpr const char* mathematics = R"(#pragma once
#ifndef INFINITY
#define INFINITY (__int_as_float(0x7f800000))
#endif
#ifndef NAN
#define NAN (__int_as_float(0x7fffffff))
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_1_PI 0.31830988618379067154
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
namespace std {
using ::abs; using ::fabs; using ::sqrt; using ::cbrt; using ::exp; using ::exp2; using ::expm1;
using ::log; using ::log2; using ::log10; using ::log1p; using ::pow; using ::sin; using ::cos;
using ::tan; using ::asin; using ::acos; using ::atan; using ::atan2; using ::sinh; using ::cosh;
using ::tanh; using ::asinh; using ::acosh; using ::atanh; using ::erf; using ::erfc; using ::floor;
using ::ceil; using ::round; using ::trunc; using ::rint; using ::nearbyint; using ::fmod;
using ::fma; using ::fmax; using ::fmin; using ::hypot; using ::copysign; using ::ldexp;
using ::isnan; using ::isinf; using ::isfinite; using ::signbit;
}
)";

constexpr const char* numeric_limits = R"(#pragma once
#include <climits>
#include <cfloat>
#include <cmath>
namespace std {
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define QUERN_LIMITS(T, low, high, digit, is_int) \
template <> struct numeric_limits<T> { \
  static constexpr bool is_specialized = true, is_integer = is_int, is_signed = static_cast<T>(-1) < static_cast<T>(0); \
  static constexpr int digits = digit; \
  static constexpr T min() { return low; } \
  static constexpr T lowest() { return low; } \
  static constexpr T max() { return high; } };
QUERN_LIMITS(signed char, SCHAR_MIN, SCHAR_MAX, 7, true)
QUERN_LIMITS(unsigned char, 0, UCHAR_MAX, 8, true)
QUERN_LIMITS(short, SHRT_MIN, SHRT_MAX, 15, true)
QUERN_LIMITS(unsigned short, 0, USHRT_MAX, 16, true)
QUERN_LIMITS(int, INT_MIN, INT_MAX, 31, true)
QUERN_LIMITS(unsigned int, 0, UINT_MAX, 32, true)
QUERN_LIMITS(long, LONG_MIN, LONG_MAX, 63, true)
QUERN_LIMITS(unsigned long, 0, ULONG_MAX, 64, true)
QUERN_LIMITS(long long, LLONG_MIN, LLONG_MAX, 63, true)
QUERN_LIMITS(unsigned long long, 0, ULLONG_MAX, 64, true)
#undef QUERN_LIMITS
template <> struct numeric_limits<float> {
  static constexpr bool is_specialized = true, is_integer = false, is_signed = true, has_infinity = true;
  static constexpr int digits = 24;
  static constexpr float min() { return FLT_MIN; }
  static constexpr float lowest() { return -FLT_MAX; }
  static constexpr float max() { return FLT_MAX; }
  static constexpr float epsilon() { return FLT_EPSILON; }
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
  static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000); } };
template <> struct numeric_limits<double> {
  static constexpr bool is_specialized = true, is_integer = false, is_signed = true, has_infinity = true;
  static constexpr int digits = 53;
  static constexpr double min() { return DBL_MIN; }
  static constexpr double lowest() { return -DBL_MAX; }
  static constexpr double max() { return DBL_MAX; }
  static constexpr double epsilon() { return DBL_EPSILON; }
  static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000ULL); }
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000ULL); } };
}
)";

constexpr const char* traits = R"(#pragma once
namespace std {
template <class T, T v> struct integral_constant { static constexpr T value = v; using type = integral_constant; using value_type = T; constexpr operator T() const { return v; } };
template <bool b> using bool_constant = integral_constant<bool, b>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <bool b, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <bool b, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool b, class T, class F> using conditional_t = typename conditional<b, T, F>::type;
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_volatile { using type = T; };
template <class T> struct remove_volatile<volatile T> { using type = T; };
template <class T> struct remove_cv { using type = typename remove_volatile<typename remove_const<T>::type>::type; };
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using decay_t = remove_cv_t<remove_reference_t<T>>;
template <class T> struct is_floating_point : bool_constant<is_same_v<remove_cv_t<T>, float> || is_same_v<remove_cv_t<T>, double>> {};
template <class T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> struct is_integral : bool_constant<(is_same_v<remove_cv_t<T>, bool> || is_same_v<remove_cv_t<T>, char> || is_same_v<remove_cv_t<T>, signed char> || is_same_v<remove_cv_t<T>, unsigned char> || is_same_v<remove_cv_t<T>, short> || is_same_v<remove_cv_t<T>, unsigned short> || is_same_v<remove_cv_t<T>, int> || is_same_v<remove_cv_t<T>, unsigned> || is_same_v<remove_cv_t<T>, long> || is_same_v<remove_cv_t<T>, unsigned long> || is_same_v<remove_cv_t<T>, long long> || is_same_v<remove_cv_t<T>, unsigned long long>)> {};
template <class T> inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T> struct is_arithmetic : bool_constant<is_integral_v<T> || is_floating_point_v<T>> {};
template <class T> inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
}
)";

// std::move and std::forward are built in.
constexpr const char* moving = R"(#pragma once
namespace std {
template <class T> __host__ __device__ constexpr void swap(T& a, T& b) { T c = static_cast<T&&>(a); a = static_cast<T&&>(b); b = static_cast<T&&>(c); }
}
)";

constexpr const char* choosing = R"(#pragma once
#include <utility>
namespace std {
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T& clamp(const T& v, const T& a, const T& b) { return v < a ? a : b < v ? b : v; }
}
)";

constexpr const char* sizes_only = R"(#pragma once
namespace std { using ::size_t; using ::ptrdiff_t; typedef decltype(nullptr) nullptr_t; }
)";

constexpr const char* memory_words = R"(#pragma once
namespace std { using ::memcpy; using ::memset; using ::size_t; }
)";

constexpr const char* arrays = R"(#pragma once
#include <cuda/std/array>
namespace std { using cuda::std::array; }
)";

constexpr const char* tuples = R"(#pragma once
#include <cuda/std/tuple>
namespace std { using cuda::std::tuple; using cuda::std::make_tuple; using cuda::std::get; using cuda::std::tie; }
)";

// Containers are the host's, and its functions are gone from what NVRTC reads.
constexpr const char* host_only[] = {"vector",  "map",    "unordered_map", "deque",    "functional",
                                     "numeric", "memory", "iterator",      "stdlib.h", "cstdlib"};

bool has_word(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string small_floats(std::string_view text) {
  std::string lines;
  if (has_word(text, "half")) lines += "#include <cuda_fp16.h>\n";
  if (has_word(text, "bfloat16")) lines += "#include <cuda_bf16.h>\n";
  return lines;
}

constexpr const char* first_line = "#line 1 \"kernel.cu\"\n";

bool listed(std::span<const std::string_view> list, std::string_view name) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view item) {
    if (!item.ends_with('/')) return name == item;
    return name.starts_with(item) && name.size() > item.size() && !has_word(name, "..");
  });
}

}  // namespace

std::span<const std::string_view> cuda_headers() {
  return headers;
}
std::span<const std::string_view> cuda_library_headers() {
  return library_headers;
}
bool is_cuda_header(std::string_view name, bool library_calls) {
  return listed(headers, name) || (library_calls && listed(library_headers, name));
}

const std::vector<std::pair<std::string, std::string>>& nvrtc_headers() {
  static const std::vector<std::pair<std::string, std::string>> all = [] {
    std::vector<std::pair<std::string, std::string>> made{
        {"cstdint", fixed_width},    {"stdint.h", "#include <cstdint>\n"},
        {"cstddef", sizes_only},     {"stddef.h", "#include <cstddef>\n"},
        {"climits", integer_limits}, {"limits.h", "#include <climits>\n"},
        {"cfloat", floating_limits}, {"float.h", "#include <cfloat>\n"},
        {"cmath", mathematics},      {"math.h", "#include <cmath>\n"},
        {"cstring", memory_words},   {"string.h", "#include <cstring>\n"},
        {"limits", numeric_limits},  {"type_traits", traits},
        {"utility", moving},         {"algorithm", choosing},
        {"array", arrays},           {"tuple", tuples},
    };
    for (const char* name : host_only)
      made.emplace_back(name, "#pragma once\n");
    return made;
  }();
  return all;
}

std::string cuda_device_prelude(std::string_view source) {
  return "#include <cstdint>\n#include <cmath>\ntypedef struct CUstream_st* cudaStream_t;\n" +
         small_floats(source) + first_line;
}

std::string cuda_host_prelude(std::string_view source, std::string_view prototype) {
  std::string text = "#include <cuda_runtime.h>\n#include <cstdint>\n#include <cmath>\n";
  text += small_floats(std::string(source) + std::string(prototype));
  text += prototype;
  return text + "\n" + first_line;
}

}  // namespace quern::env
