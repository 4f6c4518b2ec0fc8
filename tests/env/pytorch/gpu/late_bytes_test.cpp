// Which bytes of inputs come late, and which of outputs are read early: plain values.
#include "env/lanes/pytorch/gpu/late_bytes.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

tensor_layout output_of(std::int64_t elements) {
  tensor_layout layout;
  layout.shape = {elements};
  layout.elements = elements;
  layout.bytes = elements * 4;
  return layout;
}

}  // namespace

TEST_CASE("late bytes lie within a slot, are few, and every part of it has some") {
  base::random_stream random(1, "slots");
  for (int trial = 0; trial < 3000; ++trial) {
    // From two guards and a number to 33 GiB.
    const std::uint64_t slot =
        (std::uint64_t{8448} << random.below(23)) / 256 * 256 + random.below(4096) / 256 * 256;
    const late_bytes late = choose_late_bytes(slot, random);
    CAPTURE(slot);
    REQUIRE(late.rows >= 2);
    REQUIRE(late.rows <= 1024);
    REQUIRE(late.width >= late_line);
    REQUIRE(late.column + late.width <= late.pitch);
    REQUIRE(late.rows * late.pitch <= slot);
    REQUIRE(slot - late.rows * late.pitch < late.pitch);
    REQUIRE(late.rows * late.width <= most_late_bytes);
    REQUIRE(late.width == (slot <= most_late_bytes ? late.pitch : 256));
    // Elements of all types stay whole: tensors begin at multiples of 256 bytes.
    REQUIRE(late.pitch % late_line == 0);
    REQUIRE(late.column % late_line == 0);
    REQUIRE(late.width % late_line == 0);
    // What comes last is a part of what is late.
    REQUIRE(late.last_rows() >= 2);
    REQUIRE(late.last_rows() <= most_last_lines);
    REQUIRE(late.last_row + (late.last_rows() - 1) * late.last_every < late.rows);
    REQUIRE(late.last_row + late.last_rows() * late.last_every >= late.rows);
    REQUIRE(late.last_column >= late.column);
    REQUIRE(late.last_column + late_line <= late.column + late.width);
  }
}

TEST_CASE("which bytes are late and which come last differs from call to call") {
  base::random_stream random(2, "slots");
  std::set<std::uint64_t> columns, last;
  for (int call = 0; call < 200; ++call) {
    const late_bytes late = choose_late_bytes(std::uint64_t{64} << 20, random);
    columns.insert(late.column);
    last.insert(late.last_begin());
  }
  CHECK(columns.size() > 100);
  CHECK(last.size() > 150);
}

TEST_CASE("samples lie within an output, and small outputs are read as a whole") {
  base::random_stream random(3, "outputs");
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<tensor_layout> outputs;
    for (std::uint64_t o = 1 + random.below(3); o > 0; --o)
      outputs.push_back(
          output_of(static_cast<std::int64_t>(random.below(1ULL << random.below(30)))));
    const sampled_bytes sample = choose_sample(outputs, random);
    const bool has_any = std::ranges::any_of(outputs, [](const auto& o) { return o.bytes > 0; });
    REQUIRE((sample.rows > 0) == has_any);
    if (!has_any) continue;
    REQUIRE(sample.output < outputs.size());
    const auto bytes = static_cast<std::uint64_t>(outputs[sample.output].bytes);
    REQUIRE(sample.rows * sample.width <= most_sampled_bytes);
    REQUIRE((sample.rows - 1) * sample.pitch + sample.column + sample.width <= bytes);
    REQUIRE(sample.width <= sample.pitch);
    if (bytes <= most_sampled_bytes)
      REQUIRE(sample.width == bytes);
    else
      REQUIRE(sample.rows >= 32);
  }
}

TEST_CASE("last lines that are held back stand in the place of others, and nothing else changes") {
  base::random_stream random(4, "lines");
  for (int trial = 0; trial < 300; ++trial) {
    const late_bytes late = choose_late_bytes(std::uint64_t{8448} << random.below(12), random);
    std::vector<std::byte> bytes(late.rows * late.width), lines(most_last_lines * late_line);
    for (std::byte& one : bytes)
      one = static_cast<std::byte>(random.below(256));
    const std::vector<std::byte> before = bytes;
    hold_back(late, bytes, lines, random);
    const auto at = [&](std::uint64_t i) {
      return static_cast<std::ptrdiff_t>((late.last_row + i * late.last_every) * late.width +
                                         late.last_column - late.column);
    };
    std::vector<std::byte> repaired = bytes;
    std::multiset<std::vector<std::byte>> held, true_ones;
    for (std::uint64_t i = 0; i < late.last_rows(); ++i) {
      const auto line = [&](const std::vector<std::byte>& of) {
        return std::vector<std::byte>(of.begin() + at(i), of.begin() + at(i) + late_line);
      };
      CHECK(line(bytes) != line(before));
      held.insert(line(bytes));
      true_ones.insert(line(before));
      std::copy_n(lines.begin() + static_cast<std::ptrdiff_t>(i * late_line), late_line,
                  repaired.begin() + at(i));
    }
    CHECK(held == true_ones);
    CHECK(repaired == before);
  }
}
