// Shards of an arena: together all of it, each element once.
#include "policy/weights/shard_map.hpp"

#include "policy/engine/small_models.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;

TEST_CASE("the shards of any number of ranks hold every element of every parameter once") {
  for (const architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama})
    for (const std::int32_t ranks : {1, 2, 3, 4, 7}) {
      CAPTURE(ranks);
      layout place;
      place.ranks = ranks;
      const catalogue arena =
          make_catalogue(quern::test::small_config(arch), weight_dtype::f32, place).value();
      std::vector<std::vector<int>> held;
      for (const parameter& p : arena.parameters)
        held.emplace_back(static_cast<std::size_t>(p.count()), 0);
      std::int64_t elements = 0;
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        const shard_map map = make_shard_map(arena, rank).value();
        elements += map.elements;
        std::int64_t end = 0;
        for (const shard_slice& slice : map.slices) {
          const parameter& p = arena.parameters[slice.parameter];
          CHECK(slice.in_shard >= end);
          end = slice.in_shard + slice.count;
          // The same element by both ways: through the arena and through the shard.
          const auto bucket = static_cast<std::size_t>(p.bucket);
          CHECK(map.ranges[bucket].begin + slice.in_shard - map.begins[bucket] ==
                p.offset + slice.in_parameter);
          for (std::int64_t i = 0; i < slice.count; ++i)
            ++held[slice.parameter][static_cast<std::size_t>(slice.in_parameter + i)];
        }
        CHECK(end <= map.elements);
      }
      CHECK(elements == arena.elements);
      for (const auto& one : held)
        CHECK(std::all_of(one.begin(), one.end(), [](int times) { return times == 1; }));
    }
}

TEST_CASE("a rank that the arena is not laid out for is refused") {
  const catalogue arena =
      make_catalogue(quern::test::small_config(architecture::qwen2), weight_dtype::f32).value();
  CHECK(make_shard_map(arena, 0).value().elements == arena.elements);
  CHECK_FALSE(make_shard_map(arena, 1));
  CHECK_FALSE(make_shard_map(arena, -1));
}
