// Which bytes of a call's inputs are on the device only when the call is asked for, and which bytes
// of its outputs are read when it was answered. Plain values, drawn from a secret.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// The late bytes of a slot of inputs, which is seen as rows of `pitch` bytes: `width` bytes of
/// each row, from `column` on. In slots of 256 KiB or less that is every row as a whole. In larger
/// ones it is 256 bytes of each row, and rows are 1024 at most: any stretch of `pitch` bytes has
/// some of them, but in the last two rows' length of the slot. With more rows it takes longer to
/// copy the bytes that are not late.
///
/// The last lines are a part of them, which comes behind the others: 64 bytes of every
/// `last_every`th row, from `last_row` on, at `last_column` of the row.
struct late_bytes {
  std::uint64_t pitch = 0, rows = 0, column = 0, width = 0;
  std::uint64_t last_row = 0, last_every = 1, last_column = 0;

  /// The first late byte of the slot.
  [[nodiscard]] std::uint64_t begin() const { return column; }
  /// How many last lines there are.
  [[nodiscard]] std::uint64_t last_rows() const {
    return (rows - last_row + last_every - 1) / last_every;
  }
  /// The first byte of the first of them.
  [[nodiscard]] std::uint64_t last_begin() const { return last_row * pitch + last_column; }
};

/// Bytes that are moved as one.
inline constexpr std::uint64_t late_line = 64;
inline constexpr std::uint64_t most_late_bytes = std::uint64_t{256} << 10;
inline constexpr std::uint64_t most_last_lines = 128;

/// Of a slot of so many bytes, 512 at least.
late_bytes choose_late_bytes(std::uint64_t slot_bytes, base::random_stream& random);

/// Puts each last line of a slot's late bytes in the place of another one. `late`: these bytes,
/// `width` of each row behind each other. `lines`: gets the last lines as they were, in their
/// order.
void hold_back(const late_bytes& of, std::span<std::byte> late, std::span<std::byte> lines,
               base::random_stream& random);

/// A sample of one output: `width` bytes of each of `rows` rows of `pitch` bytes, from `column` on.
/// That is all of an output of 4 KiB or less, else 32 to 64 lines of 64 bytes, equally far apart.
/// Without rows: no output has any bytes.
struct sampled_bytes {
  std::size_t output = 0;
  std::uint64_t pitch = 0, rows = 0, column = 0, width = 0;
};

inline constexpr std::uint64_t most_sampled_bytes = 4096;

sampled_bytes choose_sample(std::span<const tensor_layout> outputs, base::random_stream& random);

}  // namespace quern::env
