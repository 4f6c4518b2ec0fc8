#include "policy/weights/shard_map.hpp"

#include <algorithm>

namespace quern::policy {

base::expected<shard_map> make_shard_map(const catalogue& layout, std::int32_t rank) {
  if (rank < 0 || rank >= layout.place.ranks)
    return base::fail(base::errc::invalid_argument, "rank {} of an arena for {} ranks", rank,
                      layout.place.ranks);
  shard_map map;
  map.rank = rank;
  for (std::size_t i = 0; i < layout.buckets.size(); ++i) {
    const element_range range = layout.shard(static_cast<std::int32_t>(i), rank);
    map.ranges.push_back(range);
    map.begins.push_back(map.elements);
    map.elements += range.end - range.begin;
  }
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const parameter& p = layout.parameters[i];
    const auto bucket = static_cast<std::size_t>(p.bucket);
    const std::int64_t begin = std::max(p.offset, map.ranges[bucket].begin),
                       end = std::min(p.offset + p.count(), map.ranges[bucket].end);
    if (begin >= end) continue;
    map.slices.push_back(
        {i, begin - p.offset, map.begins[bucket] + begin - map.ranges[bucket].begin, end - begin});
  }
  return map;
}

}  // namespace quern::policy
