// Philox gives the published vectors; streams are addressed, uniform enough and independent of use.
#include "base/random.hpp"

#include <cmath>
#include <set>
#include <vector>

#include "support/test.hpp"

using namespace quern::base;

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  const std::array<std::uint32_t, 4> zeros = philox4x32({0, 0, 0, 0}, {0, 0});
  CHECK(zeros == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  const std::array<std::uint32_t, 4> full = philox4x32({ones, ones, ones, ones}, {ones, ones});
  CHECK(full == std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  const std::array<std::uint32_t, 4> pi =
      philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  CHECK(pi == std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("equal addresses give equal sequences, others do not") {
  random_stream a(7, "sample", {1, 2});
  random_stream b(7, "sample", {1, 2});
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t value = a.next_u64();
    CHECK(value == b.next_u64());
    seen.insert(value);
  }
  seen.insert(random_stream(7, "sample", {2, 1}).next_u64());
  seen.insert(random_stream(7, "inputs", {1, 2}).next_u64());
  seen.insert(random_stream(8, "sample", {1, 2}).next_u64());
  CHECK(seen.size() == 103);
}

TEST_CASE("the open interval is open at both ends") {
  CHECK(to_open_unit(0) > 0.0F);
  CHECK(to_open_unit(0xffffffff) < 1.0F);
}

TEST_CASE("below is uniform and within bounds") {
  random_stream random(3, "test");
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i)
    ++counts[random.below(7)];
  for (int count : counts)
    CHECK(std::abs(count - 10000) < 500);
}

TEST_CASE("between reaches both ends, over the whole range too") {
  random_stream random(3, "test");
  std::set<std::int64_t> seen;
  for (int i = 0; i < 200; ++i)
    seen.insert(random.between(-1, 1));
  CHECK(seen == std::set<std::int64_t>{-1, 0, 1});
  random.between(INT64_MIN, INT64_MAX);
}

TEST_CASE("normal has mean 0 and variance 1") {
  random_stream random(5, "test");
  double sum = 0;
  double squares = 0;
  constexpr int count = 100000;
  for (int i = 0; i < count; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / count) < 0.02);
  CHECK(std::abs(squares / count - 1) < 0.02);
}
