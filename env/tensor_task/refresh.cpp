// Fresh input content for every timed call, at about the speed of a copy.
//
// A candidate may have analysed the content of all calls before this one: sorted it, counted it,
// summed it up. So the content of a call is put together of short blocks, each from a place in the
// base of its own, and every element is changed on top of that, by a table that is drawn for the
// call and read from another place for every block. To find out where a block comes from costs as
// much as to read it, and what was known about those elements of the base (their sum, their order,
// a histogram) does not hold for the changed ones: a change of bits, and a sum modulo the bound, go
// along with no operation that kernels do.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/random.hpp"
#include "env/tensor_task/content_check.hpp"
#include "env/tensor_task/elements.hpp"
#include "env/tensor_task/fill.hpp"

namespace quern::env {

namespace {

/// Elements of a block: two cache lines, since a cheat that looks at the first has fetched the
/// other; 32 of the widest types, which have no vectors to speak of otherwise.
template <class T>
constexpr std::size_t block_of = std::max<std::size_t>(128 / sizeof(T), 32);
/// Places in the table of changes at which a block may begin.
constexpr std::size_t most_windows = 256;
/// Blocks whose places are known, and fetched, ahead of their copy.
constexpr std::size_t ahead = 16;

/// The counter-th number of a key: the finaliser of SplitMix64. It withstands nobody who sees its
/// numbers in full, but a candidate sees where blocks come from and no more, and has microseconds:
/// every call's keys are new, from Philox with the secret seed.
std::uint64_t mixed(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = key + (counter + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// A number in [0, bound) of 64 random bits.
std::uint64_t scaled(std::uint64_t bits, std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

/// The secret numbers of one (where, call).
struct call_keys {
  std::uint64_t places, table;
};

/// out = blocks of base, changed: out[i] = change(base[place + i], table[window + i]) for the
/// elements i of a block. `draw` makes a table entry of 64 random bits.
template <class T, class Entry, class Draw, class Change>
void copy_blocks(std::span<const std::byte> base, std::span<std::byte> out, const call_keys& keys,
                 Draw draw, Change change) {
  constexpr std::size_t block = block_of<T>;
  const T* const from = reinterpret_cast<const T*>(base.data());
  T* const to = reinterpret_cast<T*>(out.data());
  const std::size_t count = out.size() / sizeof(T);
  const std::size_t whole = count / block, rest = count % block;
  const std::size_t windows = std::clamp<std::size_t>(whole, 1, most_windows);
  Entry table[most_windows + block];
  for (std::size_t i = 0; i < windows + block; ++i)
    table[i] = draw(mixed(keys.table, i));

  if (whole == 0) {
    const std::size_t shift = scaled(mixed(keys.places, 0), count);
    for (std::size_t i = 0; i < count; ++i)
      to[i] = change(from[i + shift < count ? i + shift : i + shift - count], table[i]);
    return;
  }
  struct block_place {
    const T* base;
    const Entry* table;
  };
  const auto place_of = [&](std::size_t at, std::size_t length) {
    const std::uint64_t bits = mixed(keys.places, at);
    return block_place{from + scaled(bits, count - length + 1),
                       table + (((bits & 0xFFFFFFFF) * windows) >> 32)};
  };
  for (std::size_t first = 0; first < whole; first += ahead) {
    block_place places[ahead];
    const std::size_t some = std::min(ahead, whole - first);
    for (std::size_t b = 0; b < some; ++b) {
      places[b] = place_of(first + b, block);
      for (std::size_t i = 0; i < block; i += 64 / sizeof(T))
        __builtin_prefetch(places[b].base + i);
      __builtin_prefetch(places[b].base + block - 1);
    }
    for (std::size_t b = 0; b < some; ++b) {
      const T* __restrict source = places[b].base;
      const Entry* __restrict entries = places[b].table;
      T* __restrict target = to + (first + b) * block;
      for (std::size_t i = 0; i < block; ++i)
        target[i] = change(source[i], entries[i]);
    }
  }
  if (rest == 0) return;
  const block_place last = place_of(whole, rest);
  for (std::size_t i = 0; i < rest; ++i)
    to[whole * block + i] = change(last.base[i], last.table[i]);
}

/// What the bits of a floating type mean.
template <class Bits>
struct bit_format {
  int mantissa;  // its bits
  Bits one, one_and_a_half, infinity;
};

template <class Bits>
constexpr bit_format<Bits> format_of(int mantissa) {
  constexpr int width = 8 * sizeof(Bits);
  const int exponent = width - 1 - mantissa;
  const auto one = static_cast<Bits>(((Bits{1} << (exponent - 1)) - 1) << mantissa);
  return {mantissa, one, static_cast<Bits>(one | (Bits{1} << (mantissa - 1))),
          static_cast<Bits>(((Bits{1} << exponent) - 1) << mantissa)};
}

/// Changes the mantissa below its first bit, and the sign where the distribution is symmetric: the
/// number stays within its half of its binade, which leaves a uniform distribution uniform and a
/// normal one normal to a few per cent, and every range as it was.
template <class Bits>
void refresh_floating(distribution kind, const bit_format<Bits>& format, const call_keys& keys,
                      std::span<const std::byte> base, std::span<std::byte> out) {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  auto changed = static_cast<Bits>((Bits{1} << (format.mantissa - 1)) - 1);
  // The last bit of a subnormal number is 1, which keeps it from becoming 0.
  if (kind == distribution::denormal) changed = static_cast<Bits>(changed & ~Bits{1});
  if (kind != distribution::positive) changed = static_cast<Bits>(changed | sign);
  const auto draw = [=](std::uint64_t bits) {
    return static_cast<Bits>((bits >> (64 - 8 * sizeof(Bits))) & changed);
  };
  // Zeros stay, and so does what is no number; in a half-open range so does its end, which rounding
  // to a narrow type may have reached.
  const bool guarded = kind == distribution::sparse || kind == distribution::special ||
                       (kind == distribution::uniform && sizeof(Bits) < 4) ||
                       (kind == distribution::positive && sizeof(Bits) < 8);
  if (!guarded) {
    copy_blocks<Bits, Bits>(base, out, keys, draw,
                            [](Bits v, Bits mask) { return static_cast<Bits>(v ^ mask); });
    return;
  }
  // Compared as what every instruction set compares in vectors.
  using number = std::conditional_t<sizeof(Bits) == 8, double, std::make_signed_t<Bits>>;
  const auto end = std::bit_cast<number>(kind == distribution::uniform    ? format.one
                                         : kind == distribution::positive ? format.one_and_a_half
                                                                          : format.infinity);
  copy_blocks<Bits, Bits>(base, out, keys, draw, [=](Bits v, Bits mask) {
    const auto size = std::bit_cast<number>(static_cast<Bits>(v & static_cast<Bits>(~sign)));
    const auto free = static_cast<Bits>(-static_cast<Bits>((size > 0) & (size < end)));
    return static_cast<Bits>(v ^ (mask & free));
  });
}

/// Adds modulo the bound; zeros stay zeros when sparse, and the others go around among themselves.
template <class T>
void refresh_integer(distribution kind, std::int64_t below, const call_keys& keys,
                     std::span<const std::byte> base, std::span<std::byte> out) {
  // Unsigned, since a range of 2^31 fits 32 bits in no other way.
  using bits_of = std::make_unsigned_t<T>;
  using number = std::make_signed_t<T>;
  const bool sparse = kind == distribution::sparse;
  const std::uint64_t bound = static_cast<std::uint64_t>(below) - (sparse ? 1 : 0);
  const auto range = static_cast<bits_of>(bound);
  const auto draw = [=](std::uint64_t bits) {
    // Bytes use their whole range, so that they are compared; wider types have a sign to look at.
    const std::uint64_t step = scaled(bits, bound);
    return static_cast<bits_of>(sizeof(T) == 1 ? step : step - bound);
  };
  const auto turn = [=](bits_of v, bits_of step) {
    const auto moved = static_cast<bits_of>(v + step);
    if constexpr (sizeof(T) == 1)
      return static_cast<bits_of>(moved - (v >= static_cast<bits_of>(range - step) ? range : 0));
    else
      return static_cast<bits_of>(
          moved +
          (range & static_cast<bits_of>(static_cast<number>(moved) >> (8 * sizeof(T) - 1))));
  };
  if (sparse)
    copy_blocks<bits_of, bits_of>(base, out, keys, draw, [=](bits_of v, bits_of step) {
      const auto moved = static_cast<bits_of>(turn(static_cast<bits_of>(v - 1), step) + 1);
      return static_cast<bits_of>(v == 0 ? 0 : moved);
    });
  else
    copy_blocks<bits_of, bits_of>(base, out, keys, draw, turn);
}

/// Every row from a row of base of its own: change(from, to, bits), which keeps it ascending.
template <class T, class Change>
void copy_rows(const tensor_layout& layout, const call_keys& keys, std::span<const std::byte> base,
               std::span<std::byte> out, Change change) {
  const std::size_t count = out.size() / sizeof(T);
  const std::size_t row = layout.shape.empty() ? 1 : static_cast<std::size_t>(layout.shape.back());
  const std::size_t rows = count / row;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t source = scaled(mixed(keys.places, r), rows);
    change(reinterpret_cast<const T*>(base.data()) + source * row,
           reinterpret_cast<T*>(out.data()) + r * row, row, mixed(keys.table, r));
  }
}

/// Rows times a factor near one, plus a little.
template <class T>
void refresh_sorted(const tensor_layout& layout, const call_keys& keys,
                    std::span<const std::byte> base, std::span<std::byte> out) {
  using Wide = value_type_of<T>;
  copy_rows<T>(layout, keys, base, out,
               [&](const T* from, T* to, std::size_t row, std::uint64_t bits) {
                 const auto unit = [](std::uint64_t some) {
                   return static_cast<Wide>(static_cast<double>(some) * 0x1p-31 - 1);
                 };
                 const Wide factor = 1 + unit(bits >> 32) / 16;
                 const Wide offset = unit(bits & 0xFFFFFFFF) / 16;
                 for (std::size_t j = 0; j < row; ++j)
                   to[j] = element_from<T>(value_of(from[j]) * factor + offset);
               });
}

/// Rows pressed together by a share and moved; where the bound leaves no room for that, what is in
/// a row moves along it instead.
template <class T>
void refresh_sorted_integer(const tensor_layout& layout, const call_keys& keys,
                            std::span<const std::byte> base, std::span<std::byte> out) {
  constexpr std::int64_t least_room = 32;
  const std::int64_t most = layout.below - 1;
  copy_rows<T>(
      layout, keys, base, out, [&](const T* from, T* to, std::size_t row, std::uint64_t bits) {
        if (layout.below < least_room) {
          const auto reach = static_cast<std::int64_t>((row + 7) / 8);
          const auto length = static_cast<std::int64_t>(row);
          const std::int64_t shift =
              static_cast<std::int64_t>(scaled(bits, static_cast<std::uint64_t>(2 * reach + 1))) -
              reach;
          for (std::int64_t j = 0; j < length; ++j)
            to[j] = from[std::clamp<std::int64_t>(j + shift, 0, length - 1)];
          return;
        }
        const auto pressed = [share =
                                  57344 + static_cast<std::int64_t>(bits >> 51)](std::int64_t v) {
          return static_cast<std::int64_t>((static_cast<__int128>(v) * share) >> 16);
        };
        const auto offset = static_cast<std::int64_t>(
            scaled(bits << 13, static_cast<std::uint64_t>(most - pressed(most) + 1)));
        for (std::size_t j = 0; j < row; ++j)
          to[j] = static_cast<T>(pressed(static_cast<std::int64_t>(from[j])) + offset);
      });
}

/// Another constant, drawn as the first one was.
base::status refresh_constant(const tensor_layout& layout, content_address where,
                              const call_keys& keys, std::span<std::byte> out) {
  tensor_layout one = layout;
  one.shape.clear();
  one.elements = 1;
  one.bytes = static_cast<std::int64_t>(size_of(layout.type));
  const auto width = static_cast<std::size_t>(one.bytes);
  where.seed = keys.places;
  QUERN_CHECK(fill_input(one, distribution::constant, where, out.first(width)));
  for (std::size_t done = width; done < out.size();) {
    const std::size_t more = std::min(done, out.size() - done);
    std::memcpy(out.data() + done, out.data(), more);
    done += more;
  }
  return {};
}

}  // namespace

base::status refresh_input(const tensor_layout& layout, distribution kind, content_address where,
                           std::uint64_t call, std::span<const std::byte> base,
                           std::span<std::byte> out) {
  QUERN_CHECK(check_content(layout, kind, out.size()));
  QUERN_CHECK(check_content(layout, kind, base.size()));
  if (out.empty()) return {};
  base::random_stream secret(where.seed, "refresh", {where.input, where.round, call});
  const call_keys keys{secret.next_u64(), secret.next_u64()};
  if (kind == distribution::constant) return refresh_constant(layout, where, keys, out);
  const bool sorted = kind == distribution::sorted;
  visit_element(layout.type, [&](auto type) {
    using T = decltype(type);
    if constexpr (!is_floating_element<T>) {
      if (sorted)
        refresh_sorted_integer<T>(layout, keys, base, out);
      else
        refresh_integer<T>(kind, layout.below, keys, base, out);
    } else if (sorted) {
      refresh_sorted<T>(layout, keys, base, out);
    } else {
      refresh_floating(kind, format_of<element_bits_of<T>>(mantissa_bits<T>), keys, base, out);
    }
  });
  return {};
}

}  // namespace quern::env
