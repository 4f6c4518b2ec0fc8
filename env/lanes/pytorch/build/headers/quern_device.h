// Stands for torch/extension.h, torch/types.h and the headers of ATen and c10 in a candidate's CUDA
// source. nvcc reads a source four times, and LibTorch's own headers take nearly all of that time.
//
// The classes that cross the border to other object files (Tensor, ArrayRef, ScalarType, Device)
// have LibTorch's names and layouts, which quern_support.cpp checks. Everything here is inlined
// into its caller, so that no symbol of LibTorch is defined a second time. What has no counterpart
// of the same layout is in the inline namespace quern_slim: an object file that expects LibTorch's
// class then misses a symbol whose name says so.
#pragma once

#include <algorithm>
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#define QUERN_SLIM inline __attribute__((always_inline))
#define QUERN_SLIM_MEMBER __attribute__((always_inline))

namespace c10 {

enum class ScalarType : std::int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Bool = 11,
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  BFloat16 = 15
};
enum class DeviceType : std::int8_t { CPU = 0, CUDA = 1, Meta = 14 };
enum class MemoryFormat : std::int8_t {
  Contiguous = 0,
  Preserve = 1,
  ChannelsLast = 2,
  ChannelsLast3d = 3
};
using DeviceIndex = std::int8_t;
struct Half;
struct BFloat16;

constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short,
                     kInt = ScalarType::Int, kLong = ScalarType::Long, kHalf = ScalarType::Half,
                     kFloat = ScalarType::Float, kDouble = ScalarType::Double,
                     kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16;
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta;

template <class T>
struct CppTypeToScalarType;
#define QUERN_SLIM_TYPE(cpp, name) \
  template <>                      \
  struct CppTypeToScalarType<cpp> : std::integral_constant<ScalarType, ScalarType::name> {};
QUERN_SLIM_TYPE(std::uint8_t, Byte)
QUERN_SLIM_TYPE(std::int8_t, Char)
QUERN_SLIM_TYPE(std::int16_t, Short)
QUERN_SLIM_TYPE(int, Int) QUERN_SLIM_TYPE(std::int64_t, Long) QUERN_SLIM_TYPE(float, Float)
    QUERN_SLIM_TYPE(double, Double) QUERN_SLIM_TYPE(bool, Bool) QUERN_SLIM_TYPE(Half, Half)
        QUERN_SLIM_TYPE(BFloat16, BFloat16)
#undef QUERN_SLIM_TYPE

            class TensorImpl;

/// LibTorch's layout: a pointer and a length. Owns nothing.
template <class T>
class ArrayRef {
  const T* data_ = nullptr;
  std::size_t size_ = 0;

 public:
  using value_type = T;
  using iterator = const T*;
  QUERN_SLIM_MEMBER constexpr ArrayRef() {}
  QUERN_SLIM_MEMBER constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  QUERN_SLIM_MEMBER constexpr ArrayRef(const T* data, std::size_t size)
      : data_(data), size_(size) {}
  template <class A>
  QUERN_SLIM_MEMBER ArrayRef(const std::vector<T, A>& from)
      : data_(from.data()), size_(from.size()) {}
  template <std::size_t N>
  QUERN_SLIM_MEMBER constexpr ArrayRef(const T (&from)[N]) : data_(from), size_(N) {}
  template <std::size_t N>
  QUERN_SLIM_MEMBER ArrayRef(const std::array<T, N>& from) : data_(from.data()), size_(N) {}
  QUERN_SLIM_MEMBER constexpr ArrayRef(const std::initializer_list<T>& from)
      : data_(from.begin() == from.end() ? nullptr : from.begin()), size_(from.size()) {}
  QUERN_SLIM_MEMBER const T* data() const { return data_; }
  QUERN_SLIM_MEMBER std::size_t size() const { return size_; }
  QUERN_SLIM_MEMBER bool empty() const { return size_ == 0; }
  QUERN_SLIM_MEMBER const T* begin() const { return data_; }
  QUERN_SLIM_MEMBER const T* end() const { return data_ + size_; }
  QUERN_SLIM_MEMBER const T& operator[](std::size_t at) const { return data_[at]; }
  QUERN_SLIM_MEMBER const T& front() const { return data_[0]; }
  QUERN_SLIM_MEMBER const T& back() const { return data_[size_ - 1]; }
  QUERN_SLIM_MEMBER std::vector<T> vec() const { return std::vector<T>(data_, data_ + size_); }
  QUERN_SLIM_MEMBER bool equals(ArrayRef other) const {
    return size_ == other.size_ && std::equal(begin(), end(), other.begin());
  }
};
template <class T>
QUERN_SLIM bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <class T>
QUERN_SLIM bool operator!=(ArrayRef<T> a, ArrayRef<T> b) {
  return !a.equals(b);
}
template <class T>
QUERN_SLIM bool operator==(ArrayRef<T> a, const std::vector<T>& b) {
  return a.equals(b);
}
template <class T>
QUERN_SLIM bool operator==(const std::vector<T>& a, ArrayRef<T> b) {
  return b.equals(a);
}
using IntArrayRef = ArrayRef<std::int64_t>;

struct Device {
  QUERN_SLIM_MEMBER Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  QUERN_SLIM_MEMBER DeviceType type() const { return type_; }
  QUERN_SLIM_MEMBER DeviceIndex index() const { return index_; }
  QUERN_SLIM_MEMBER bool is_cuda() const { return type_ == DeviceType::CUDA; }
  QUERN_SLIM_MEMBER bool is_cpu() const { return type_ == DeviceType::CPU; }
  QUERN_SLIM_MEMBER bool has_index() const { return index_ != -1; }
  QUERN_SLIM_MEMBER bool operator==(const Device& other) const {
    return type_ == other.type_ && index_ == other.index_;
  }
  QUERN_SLIM_MEMBER bool operator!=(const Device& other) const { return !(*this == other); }

 private:
  DeviceType type_;
  DeviceIndex index_;
};

inline namespace quern_slim {

/// What TensorOptions::dtype and Tensor::dtype give: the comparisons that candidates make of it.
struct TypeMeta {
  ScalarType type;
  QUERN_SLIM_MEMBER operator ScalarType() const { return type; }
  QUERN_SLIM_MEMBER ScalarType toScalarType() const { return type; }
};
QUERN_SLIM bool operator==(TypeMeta a, TypeMeta b) {
  return a.type == b.type;
}
QUERN_SLIM bool operator!=(TypeMeta a, TypeMeta b) {
  return a.type != b.type;
}
QUERN_SLIM bool operator==(TypeMeta a, ScalarType b) {
  return a.type == b;
}
QUERN_SLIM bool operator!=(TypeMeta a, ScalarType b) {
  return a.type != b;
}
QUERN_SLIM bool operator==(ScalarType a, TypeMeta b) {
  return a == b.type;
}
QUERN_SLIM bool operator!=(ScalarType a, TypeMeta b) {
  return a != b.type;
}

/// What Tensor::type gives, which is deprecated and still written.
struct OldType {
  ScalarType of;
  bool cuda;
  QUERN_SLIM_MEMBER operator ScalarType() const { return of; }
  QUERN_SLIM_MEMBER ScalarType scalarType() const { return of; }
  QUERN_SLIM_MEMBER bool is_cuda() const { return cuda; }
};

/// What is not set is -1.
struct TensorOptions {
  std::int8_t type = -1, where = -1, index = -1, format = -1;
  QUERN_SLIM_MEMBER TensorOptions() {}
  QUERN_SLIM_MEMBER TensorOptions(ScalarType of) : type(static_cast<std::int8_t>(of)) {}
  QUERN_SLIM_MEMBER TensorOptions(TypeMeta of) : type(static_cast<std::int8_t>(of.type)) {}
  QUERN_SLIM_MEMBER TensorOptions(Device on)
      : where(static_cast<std::int8_t>(on.type())), index(on.index()) {}
  QUERN_SLIM_MEMBER TensorOptions(DeviceType on) : where(static_cast<std::int8_t>(on)) {}
  QUERN_SLIM_MEMBER TensorOptions(MemoryFormat as) : format(static_cast<std::int8_t>(as)) {}
  QUERN_SLIM_MEMBER TensorOptions dtype(ScalarType of) const {
    TensorOptions made = *this;
    made.type = static_cast<std::int8_t>(of);
    return made;
  }
  QUERN_SLIM_MEMBER TensorOptions device(Device on) const {
    TensorOptions made = *this;
    made.where = static_cast<std::int8_t>(on.type());
    made.index = on.index();
    return made;
  }
  QUERN_SLIM_MEMBER TensorOptions device(DeviceType on, DeviceIndex at = -1) const {
    return device(Device(on, at));
  }
  QUERN_SLIM_MEMBER TensorOptions memory_format(MemoryFormat as) const {
    TensorOptions made = *this;
    made.format = static_cast<std::int8_t>(as);
    return made;
  }
};

/// A number for fill_, full and their like.
struct Scalar {
  double real = 0;
  std::int64_t whole = 0;
  int kind = 0;  ///< 0: real, 1: whole, 2: bool
  template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
  QUERN_SLIM_MEMBER Scalar(T value) : real(value) {}
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  QUERN_SLIM_MEMBER Scalar(T value) : whole(value), kind(std::is_same_v<T, bool> ? 2 : 1) {}
};

}  // namespace quern_slim

}  // namespace c10

namespace at {
using namespace c10;
class Tensor;
class TensorBase;
}  // namespace at

// quern_support.cpp. `made` has no object yet. They throw what LibTorch throws.
extern "C" {
void quern_slim_keep(const void* impl);
void quern_slim_drop(void* impl);
void* quern_slim_undefined();
std::int64_t quern_slim_numel(const at::TensorBase& of);
std::int64_t quern_slim_dim(const at::TensorBase& of);
const std::int64_t* quern_slim_sizes(const at::TensorBase& of);
const std::int64_t* quern_slim_strides(const at::TensorBase& of);
std::int64_t quern_slim_size(const at::TensorBase& of, std::int64_t dim);
std::int64_t quern_slim_stride(const at::TensorBase& of, std::int64_t dim);
int quern_slim_type(const at::TensorBase& of);
int quern_slim_device(const at::TensorBase& of, int* index);
std::int64_t quern_slim_element_size(const at::TensorBase& of);
std::int64_t quern_slim_storage_offset(const at::TensorBase& of);
bool quern_slim_is_contiguous(const at::TensorBase& of, int format);
bool quern_slim_requires_grad(const at::TensorBase& of);
/// Type -1: of whatever type. Whether it is mutable decides which of LibTorch's functions gives it.
void* quern_slim_data(const at::TensorBase& of, int type, bool constant);
void quern_slim_throw(int kind, const char* file, int line, const char* function, const char* text);
void quern_slim_make(void* made, int how, const std::int64_t* sizes, std::size_t count,
                     const c10::TensorOptions& options, const c10::Scalar& value);
void quern_slim_make_like(void* made, int how, const at::TensorBase& like,
                          const c10::TensorOptions& options, const c10::Scalar& value);
/// One of the methods that give a tensor (quern_support.cpp has their list).
void quern_slim_method(void* made, int method, const at::TensorBase& of,
                       const std::int64_t* numbers, std::size_t count, const at::TensorBase* other,
                       const c10::Scalar& value);
void quern_slim_to(void* made, const at::TensorBase& of, const c10::TensorOptions& options);
void quern_slim_set(const at::TensorBase& what, int how, const at::TensorBase* from,
                    const c10::Scalar& value);
double quern_slim_item(const at::TensorBase& of, std::int64_t* whole);
}

namespace c10 {
template <class... Parts>
std::string quern_slim_text(const Parts&... parts) {
  std::ostringstream made;
  (void)(made << ... << parts);
  return made.str();
}
template <class T>
QUERN_SLIM std::ostream& operator<<(std::ostream& to, ArrayRef<T> list) {
  to << '[';
  for (std::size_t i = 0; i < list.size(); ++i)
    to << (i == 0 ? "" : ", ") << list[i];
  return to << ']';
}
inline namespace quern_slim {
inline const char* toString(ScalarType type) {
  static const char* const names[] = {"Byte",        "Char",         "Short",         "Int",
                                      "Long",        "Half",         "Float",         "Double",
                                      "ComplexHalf", "ComplexFloat", "ComplexDouble", "Bool",
                                      "QInt8",       "QUInt8",       "QInt32",        "BFloat16"};
  const int at = static_cast<int>(type);
  return at >= 0 && at < 16 ? names[at] : "UNKNOWN_SCALAR";
}
inline std::ostream& operator<<(std::ostream& to, TypeMeta type) {
  return to << toString(type.type);
}
}  // namespace quern_slim
QUERN_SLIM std::ostream& operator<<(std::ostream& to, ScalarType type) {
  return to << toString(type);
}
QUERN_SLIM std::ostream& operator<<(std::ostream& to, Device device) {
  to << (device.is_cuda() ? "cuda" : device.is_cpu() ? "cpu" : "meta");
  if (device.has_index()) to << ':' << static_cast<int>(device.index());
  return to;
}
}  // namespace c10

#define QUERN_SLIM_CHECK(kind, condition, ...)                                                     \
  do {                                                                                             \
    if (!(condition))                                                                              \
      quern_slim_throw(kind, __FILE__, __LINE__, __func__,                                         \
                       ::c10::quern_slim_message(                                                  \
                           "Expected " #condition                                                  \
                           " to be true, but got false.  (Could this error message be improved?  " \
                           "If so, please report an enhancement request to PyTorch.)",             \
                           ##__VA_ARGS__)                                                          \
                           .c_str());                                                              \
  } while (false)
namespace c10 {
QUERN_SLIM std::string quern_slim_message(const char* standard) {
  return standard;
}
template <class... Parts>
QUERN_SLIM std::string quern_slim_message(const char*, const Parts&... parts) {
  return quern_slim_text(parts...);
}
}  // namespace c10
#define TORCH_CHECK(condition, ...) QUERN_SLIM_CHECK(0, condition, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) QUERN_SLIM_CHECK(0, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) QUERN_SLIM_CHECK(1, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) QUERN_SLIM_CHECK(2, condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) QUERN_SLIM_CHECK(3, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) QUERN_SLIM_CHECK(4, condition, ##__VA_ARGS__)
#define AT_ASSERTM(condition, ...) QUERN_SLIM_CHECK(0, condition, ##__VA_ARGS__)
#define AT_ASSERT(condition, ...) QUERN_SLIM_CHECK(0, condition, ##__VA_ARGS__)
#define AT_ERROR(...) QUERN_SLIM_CHECK(0, false, ##__VA_ARGS__)

#include "quern_tensor.h"
