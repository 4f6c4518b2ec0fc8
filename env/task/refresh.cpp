// Fresh input content for every timed call, at the speed of a copy.
#include <type_traits>

#include "base/random.hpp"
#include "env/task/content_check.hpp"
#include "env/task/fill.hpp"
#include "env/task/float_bits.hpp"

namespace quern::env {

namespace {

/// out[i] = change(base[(i + shift) mod count]): two plain loops, so that the compiler can use
/// vectors.
template <class T, class F>
void rotate_through(std::span<const std::byte> base, std::span<std::byte> out, std::size_t shift,
                    F change) {
  const T* from = reinterpret_cast<const T*>(base.data());
  T* to = reinterpret_cast<T*>(out.data());
  const std::size_t count = out.size() / sizeof(T);
  for (std::size_t i = shift; i < count; ++i)
    to[i - shift] = change(from[i]);
  for (std::size_t i = 0; i < shift; ++i)
    to[count - shift + i] = change(from[i]);
}

/// Keeps [0, below) and what the distribution means: cyclic for uniform and constant; zeros stay
/// zeros when sparse; monotone when sorted.
template <class T>
void refresh_integer(distribution kind, std::int64_t below, base::random_stream& draw,
                     std::span<const std::byte> base, std::span<std::byte> out, std::size_t shift) {
  if (kind == distribution::sorted) {
    // v -> v * share / 2^16 + offset with a share just under one: ascending rows stay ascending.
    const std::int64_t share = draw.between(61440, 65535);
    const std::int64_t room =
        below - 1 - static_cast<std::int64_t>((static_cast<__int128>(below - 1) * share) >> 16);
    const std::int64_t offset = draw.between(0, room);
    rotate_through<T>(base, out, 0, [=](T v) {
      return static_cast<T>(static_cast<std::int64_t>((static_cast<__int128>(v) * share) >> 16) +
                            offset);
    });
    return;
  }
  // Values least ..= below - 1 turn around in a circle; the narrowest type that holds their sums
  // lets the loop use vectors.
  using wide = std::conditional_t<sizeof(T) == 1, std::uint16_t, std::make_unsigned_t<T>>;
  const bool sparse = kind == distribution::sparse;
  const std::int64_t least = sparse ? 1 : 0;
  const std::int64_t range = below - least;
  const auto step = static_cast<wide>(range > 1 ? draw.between(1, range - 1) : 0);
  const auto gap = static_cast<wide>(static_cast<wide>(below) - step);
  const auto back = static_cast<wide>(gap - static_cast<wide>(least));
  rotate_through<T>(base, out, shift, [=](T v) {
    const auto value = static_cast<wide>(v);
    const auto moved = static_cast<wide>(value >= gap ? value - back : value + step);
    return static_cast<T>(sparse && value == 0 ? 0 : moved);
  });
}

}  // namespace

base::status refresh_input(const tensor_layout& layout, distribution kind, content_address where,
                           std::uint64_t call, std::span<const std::byte> base,
                           std::span<std::byte> out) {
  QUERN_CHECK(check_content(layout, kind, out.size()));
  QUERN_CHECK(check_content(layout, kind, base.size()));
  base::random_stream draw(where.seed, "refresh", {where.input, where.round, call});
  const bool in_place =
      layout.elements < 2 || kind == distribution::sorted || kind == distribution::constant;
  const std::size_t shift = in_place ? 0
                                     : 1 + static_cast<std::size_t>(draw.below(
                                               static_cast<std::uint64_t>(layout.elements - 1)));
  // A factor near one but never one, so that no element keeps its value where the rotation leaves
  // it the same.
  const double factor =
      (draw.chance(0.5) ? 1.0 : -1.0) * (16 + 240 * draw.uniform()) * 0x1p-12 + 1.0;
  const auto narrow = static_cast<float>(factor);
  switch (layout.type) {
    case dtype::f32:
      rotate_through<float>(base, out, shift, [=](float v) { return v * narrow; });
      break;
    case dtype::f64:
      rotate_through<double>(base, out, shift, [=](double v) { return v * factor; });
      break;
    case dtype::bf16:
      rotate_through<std::uint16_t>(
          base, out, shift, [=](std::uint16_t v) { return to_bf16(from_bf16(v) * narrow); });
      break;
    case dtype::f16:
      rotate_through<std::uint16_t>(base, out, shift,
                                    [=](std::uint16_t v) { return to_f16(from_f16(v) * narrow); });
      break;
    case dtype::i32:
      refresh_integer<std::int32_t>(kind, layout.below, draw, base, out, shift);
      break;
    case dtype::i64:
      refresh_integer<std::int64_t>(kind, layout.below, draw, base, out, shift);
      break;
    case dtype::u8:
      refresh_integer<std::uint8_t>(kind, layout.below, draw, base, out, shift);
      break;
  }
  return {};
}

}  // namespace quern::env
