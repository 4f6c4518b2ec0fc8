// Is a tensor right?
#include "env/judge/compare.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <fmt/ranges.h>

#include "env/judge/compare_block.hpp"
#include "env/tensor_task/elements.hpp"

namespace quern::env {
namespace {

constexpr std::size_t block = 2048;

template <class T>
bool element_right(T got, T want, T atol, T rtol) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(want)) return std::isnan(got);
    if (std::isinf(want) || !std::isfinite(got)) return got == want;
    return std::abs(got - want) <= atol + rtol * std::abs(want);
  } else {
    return got == want;
  }
}

/// By the finite rule; where it is false, the elements are looked at one by one.
template <class T>
bool stretch_right(const T* got, const T* want, std::size_t count, value_type_of<T> atol,
                   value_type_of<T> rtol) {
  if constexpr (std::is_floating_point_v<T>) {
    return block_right(got, want, count, atol, rtol);
  } else if constexpr (is_floating_element<T>) {
    std::array<float, block> wide_got, wide_want;
    const auto widen = [](T element) { return value_of(element); };
    std::transform(got, got + count, wide_got.begin(), widen);
    std::transform(want, want + count, wide_want.begin(), widen);
    return block_right(wide_got.data(), wide_want.data(), count, atol, rtol);
  } else {
    return std::memcmp(got, want, count * sizeof(T)) == 0;
  }
}

template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return fmt::format("{:a}", static_cast<double>(value));
  } else {
    return fmt::format("{}", static_cast<std::int64_t>(value));
  }
}

template <class T>
first_difference difference_at(const tensor_layout& layout, std::size_t i, T got, T want) {
  first_difference d;
  d.output = layout.name;
  d.index.resize(layout.shape.size());
  auto rest = static_cast<std::int64_t>(i);
  for (std::size_t axis = layout.shape.size(); axis-- > 0;) {
    d.index[axis] = rest % layout.shape[axis];
    rest /= layout.shape[axis];
  }
  d.got = number_text(got);
  d.want = number_text(want);
  return d;
}

template <class T, class Right>
std::optional<first_difference> first_wrong(const tensor_layout& layout, const T* got,
                                            const T* want, std::size_t begin, std::size_t end,
                                            Right right) {
  for (std::size_t i = begin; i < end; ++i)
    if (!right(got[i], want[i]))
      return difference_at(layout, i, value_of(got[i]), value_of(want[i]));
  return std::nullopt;
}

template <class T>
std::optional<first_difference> compare_as(const tensor_layout& layout, const tolerance& limit,
                                           std::span<const std::byte> got_bytes,
                                           std::span<const std::byte> want_bytes) {
  const auto* got = reinterpret_cast<const T*>(got_bytes.data());
  const auto* want = reinterpret_cast<const T*>(want_bytes.data());
  const std::size_t count = got_bytes.size() / sizeof(T);
  const auto atol = static_cast<value_type_of<T>>(limit.atol);
  const auto rtol = static_cast<value_type_of<T>>(limit.rtol);
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    if (stretch_right(got + begin, want + begin, length, atol, rtol)) continue;
    auto d = first_wrong(layout, got, want, begin, begin + length, [&](T g, T w) {
      return element_right(value_of(g), value_of(w), atol, rtol);
    });
    if (d) return d;
  }
  return std::nullopt;
}

template <class T>
std::optional<first_difference> compare_bits_as(const tensor_layout& layout,
                                                std::span<const std::byte> got_bytes,
                                                std::span<const std::byte> want_bytes) {
  const auto* got = reinterpret_cast<const T*>(got_bytes.data());
  const auto* want = reinterpret_cast<const T*>(want_bytes.data());
  return first_wrong(layout, got, want, 0, got_bytes.size() / sizeof(T), [](T g, T w) {
    if constexpr (std::is_floating_point_v<value_type_of<T>>)
      if (std::isnan(value_of(g)) && std::isnan(value_of(w))) return true;
    return std::memcmp(&g, &w, sizeof(T)) == 0;
  });
}

template <class T>
T element_of(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string with_decimal(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.find('x') == std::string::npos || *end != '\0') return text;
  return fmt::format("{:.9g} ({})", value, text);
}

}  // namespace

std::optional<first_difference> compare_tensor(const tensor_layout& layout, const tolerance& limit,
                                               std::span<const std::byte> got,
                                               std::span<const std::byte> want) {
  return visit_element(
      layout.type, [&](auto type) { return compare_as<decltype(type)>(layout, limit, got, want); });
}

std::optional<first_difference> compare_bits(const tensor_layout& layout,
                                             std::span<const std::byte> got,
                                             std::span<const std::byte> want) {
  if (std::memcmp(got.data(), want.data(), got.size()) == 0) return std::nullopt;
  return visit_element(
      layout.type, [&](auto type) { return compare_bits_as<decltype(type)>(layout, got, want); });
}

first_difference difference_between(const tensor_layout& layout, std::size_t index,
                                    std::span<const std::byte> got,
                                    std::span<const std::byte> want) {
  return visit_element(layout.type, [&](auto type) {
    using T = decltype(type);
    return difference_at(layout, index, value_of(element_of<T>(got)),
                         value_of(element_of<T>(want)));
  });
}

std::string describe(const first_difference& what) {
  // Outputs are NaN before a call (candidate_checks.cpp).
  const bool untouched = what.got == "nan" && what.want != "nan";
  return fmt::format("{}[{}] is {}, should be {}{}", what.output, fmt::join(what.index, ","),
                     with_decimal(what.got), with_decimal(what.want),
                     untouched ? "; outputs are NaN before the call: is it written at all?" : "");
}

}  // namespace quern::env
