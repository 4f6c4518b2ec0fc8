// What the tests of the context share: the context, and content computed on the host.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "env/device/content.hpp"
#include "env/gpu/device_context.hpp"
#include "env/tensor_task/float_bits.hpp"
#include "support/gpu.hpp"

namespace quern::test {

/// The context of all tests; null, with the reason said, where there is no device.
inline env::device_context* the_context() {
  static std::string problem;
  static const auto context = [] {
    auto opened = env::device_context::open(the_gpu());
    if (!opened) problem = opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }();
  return go_on_with_gpu(context != nullptr, problem) ? context.get() : nullptr;
}

inline constexpr env::dtype all_types[] = {env::dtype::f32, env::dtype::f64, env::dtype::i32,
                                           env::dtype::i64, env::dtype::u8,  env::dtype::bf16,
                                           env::dtype::f16};

inline std::vector<env::distribution> kinds_of(env::dtype type) {
  std::vector<env::distribution> kinds;
  for (int k = 0; k < env::distribution_count; ++k) {
    const auto kind = static_cast<env::distribution>(k);
    if (env::is_floating(type) || env::has_integer_form(kind)) kinds.push_back(kind);
  }
  return kinds;
}

inline env::tensor_layout layout_of(env::dtype type, std::int64_t elements, std::int64_t row = 0) {
  env::tensor_layout layout;
  layout.type = type;
  layout.elements = elements;
  layout.shape = {row > 0 ? row : elements};
  layout.bytes = elements * static_cast<std::int64_t>(env::size_of(type));
  layout.below = env::is_floating(type) ? 0 : 200;
  return layout;
}

template <class T>
T read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Element `i` as a number; every type but large i64 is exact.
inline double number_at(env::dtype type, const std::vector<std::byte>& bytes, std::size_t i) {
  const std::byte* at = bytes.data() + i * env::size_of(type);
  switch (type) {
    case env::dtype::f32:
      return static_cast<double>(read_as<float>(at));
    case env::dtype::f64:
      return read_as<double>(at);
    case env::dtype::i32:
      return read_as<std::int32_t>(at);
    case env::dtype::i64:
      return static_cast<double>(read_as<std::int64_t>(at));
    case env::dtype::u8:
      return read_as<std::uint8_t>(at);
    case env::dtype::bf16:
      return static_cast<double>(env::from_bf16(read_as<std::uint16_t>(at)));
    case env::dtype::f16:
      return static_cast<double>(env::from_f16(read_as<std::uint16_t>(at)));
  }
  return 0;
}

/// The bytes of a number in this type.
inline std::vector<std::byte> bytes_of_number(env::dtype type, double value) {
  std::vector<std::byte> bytes(env::size_of(type));
  const auto put = [&](auto typed) { std::memcpy(bytes.data(), &typed, sizeof typed); };
  switch (type) {
    case env::dtype::f32:
      put(static_cast<float>(value));
      break;
    case env::dtype::f64:
      put(value);
      break;
    case env::dtype::i32:
      put(static_cast<std::int32_t>(value));
      break;
    case env::dtype::i64:
      put(static_cast<std::int64_t>(value));
      break;
    case env::dtype::u8:
      put(static_cast<std::uint8_t>(value));
      break;
    case env::dtype::bf16:
      put(env::to_bf16(static_cast<float>(value)));
      break;
    case env::dtype::f16:
      put(env::to_f16(static_cast<float>(value)));
      break;
  }
  return bytes;
}

/// `values` one after the other, at an address of its own on the device.
class device_values {
 public:
  device_values(env::device_context& context, env::dtype type, const std::vector<double>& values)
      : layout(layout_of(type, static_cast<std::int64_t>(values.size()))),
        allocation_(context.allocate(static_cast<std::uint64_t>(layout.bytes)).value()) {
    std::vector<std::byte> all;
    for (const double v : values) {
      const auto one = bytes_of_number(type, v);
      all.insert(all.end(), one.begin(), one.end());
    }
    REQUIRE(context.write(address(), all).has_value());
  }
  [[nodiscard]] std::uint64_t address() const { return allocation_.address(); }

  env::tensor_layout layout;

 private:
  env::device_allocation allocation_;
};

inline std::vector<env::device_finding> wait_for(env::device_context& context) {
  auto found = context.wait();
  REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().message));
  return std::move(*found);
}

}  // namespace quern::test
