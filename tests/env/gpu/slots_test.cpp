// Where tensors lie on a device, for any tensors: aligned, apart, and with a guard at every side.
#include "env/gpu/slots.hpp"

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

std::vector<env::tensor_layout> random_tensors(base::random_stream& random) {
  std::vector<env::tensor_layout> tensors(random.below(9));
  for (auto& t : tensors) {
    // Small ones, odd ones, and ones larger than a page or the address unit.
    const std::uint64_t most = random.chance(0.5) ? 40 : 300'000;
    t.bytes = static_cast<std::int64_t>(1 + random.below(most));
    t.elements = t.bytes;
    t.type = env::dtype::u8;
  }
  return tensors;
}

/// The places of a slot from its start to its end: guard, tensor, guard, tensor, ..., guard.
void check_row(const env::slot_layout& layout, const std::vector<env::tensor_layout>& tensors) {
  const auto guards = layout.guards();
  REQUIRE(layout.tensors() == tensors.size());
  REQUIRE(guards.size() == tensors.size() + 1);
  CHECK(guards[0].first == 0);
  for (std::size_t i = 0; i < guards.size(); ++i) {
    const auto [offset, bytes] = guards[i];
    CHECK(offset % 4 == 0);
    CHECK(bytes % 4 == 0);
    CHECK(bytes >= 4096);
    const std::uint64_t end = offset + bytes;
    if (i == tensors.size()) {
      CHECK(end == layout.stride());
      break;
    }
    CHECK(layout.offset(i) == end);
    CHECK(layout.offset(i) % 256 == 0);
    const auto behind = layout.offset(i) + static_cast<std::uint64_t>(tensors[i].bytes);
    // The guard behind begins at the tensor's end, but for what a word of 4 bytes cannot tell.
    CHECK(guards[i + 1].first >= behind);
    CHECK(guards[i + 1].first < behind + 4);
  }
}

}  // namespace

TEST_CASE("tensors of a slot are aligned, do not overlap and have guards all around") {
  base::random_stream random(1, "slot layouts");
  std::size_t tensors = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto drawn = random_tensors(random);
    const env::slot_layout layout(drawn);
    CHECK(layout.stride() % 256 == 0);
    check_row(layout, drawn);
    tensors += drawn.size();
  }
  CHECK(tensors > 4000);
}

TEST_CASE("slots follow each other without a gap or an overlap") {
  base::random_stream random(2, "slot views");
  for (int i = 0; i < 200; ++i) {
    const auto drawn = random_tensors(random);
    const auto slots = static_cast<std::int64_t>(1 + random.below(112));
    const std::uint64_t base = (1 + random.below(1000)) << 21U;
    const env::slot_view view(base, drawn, slots);
    CHECK(view.bytes() == view.layout().stride() * static_cast<std::uint64_t>(slots));
    for (std::size_t t = 0; t < drawn.size(); ++t) {
      CHECK(view.at(t, 0) == base + view.layout().offset(t));
      CHECK(view.at(t, slots - 1) + static_cast<std::uint64_t>(drawn[t].bytes) + 4096 <=
            base + view.bytes());
      if (slots > 1) CHECK(view.at(t, 1) - view.at(t, 0) == view.layout().stride());
    }
  }
}
