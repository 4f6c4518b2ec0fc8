// Which bytes come late, and which are read early.
#include "env/lanes/pytorch/gpu/late_bytes.hpp"

#include <algorithm>
#include <vector>

namespace quern::env {
namespace {

constexpr std::uint64_t least_pitch = 256, most_rows = 1024;

constexpr std::uint64_t parts(std::uint64_t whole, std::uint64_t part) {
  return (whole + part - 1) / part;
}

/// A multiple of a line, from 0 to `most`, which is one, too.
std::uint64_t some_line(std::uint64_t most, base::random_stream& random) {
  return random.below(most / late_line + 1) * late_line;
}

}  // namespace

late_bytes choose_late_bytes(std::uint64_t slot_bytes, base::random_stream& random) {
  late_bytes late;
  late.pitch = std::max(least_pitch, parts(parts(slot_bytes, most_rows), late_line) * late_line);
  late.rows = slot_bytes / late.pitch;
  late.width =
      std::clamp(most_late_bytes / late.rows / late_line * late_line, late_line, late.pitch);
  late.column = some_line(late.pitch - late.width, random);
  late.last_every = parts(late.rows, most_last_lines);
  late.last_row = random.below(late.last_every);
  late.last_column = late.column + some_line(late.width - late_line, random);
  return late;
}

void hold_back(const late_bytes& of, std::span<std::byte> late, std::span<std::byte> lines,
               base::random_stream& random) {
  const std::uint64_t count = of.last_rows();
  const auto line = [&](std::uint64_t i) {
    return late.subspan((of.last_row + i * of.last_every) * of.width + of.last_column - of.column,
                        late_line);
  };
  for (std::uint64_t i = 0; i < count; ++i)
    std::ranges::copy(line(i), lines.begin() + static_cast<std::ptrdiff_t>(i * late_line));
  const std::uint64_t shift = 1 + random.below(count - 1);
  for (std::uint64_t i = 0; i < count; ++i)
    std::ranges::copy(lines.subspan((i + shift) % count * late_line, late_line), line(i).begin());
}

sampled_bytes choose_sample(std::span<const tensor_layout> outputs, base::random_stream& random) {
  std::vector<std::size_t> with_bytes;
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o].bytes > 0) with_bytes.push_back(o);
  sampled_bytes sample;
  if (with_bytes.empty()) return sample;
  sample.output = with_bytes[random.below(with_bytes.size())];
  const auto bytes = static_cast<std::uint64_t>(outputs[sample.output].bytes);
  if (bytes <= most_sampled_bytes) {
    sample.rows = 1;
    sample.pitch = sample.width = bytes;
    return sample;
  }
  sample.width = late_line;
  sample.pitch = parts(parts(bytes, most_sampled_bytes / late_line), late_line) * late_line;
  sample.rows = bytes / sample.pitch;
  sample.column = some_line(sample.pitch - late_line, random);
  return sample;
}

}  // namespace quern::env
