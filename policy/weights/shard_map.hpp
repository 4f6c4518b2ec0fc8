// What one optimiser shard (ZeRO-1) holds: from every bucket of the arena an equal range, laid one
// after the other in a flat tensor of its own. With one rank the shard is the arena itself.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "policy/weights/catalogue.hpp"

namespace quern::policy {

/// The part of one parameter that lies in the shard, contiguous in all three.
struct shard_slice {
  std::size_t parameter = 0;  ///< index into catalogue::parameters
  std::int64_t in_parameter = 0;
  std::int64_t in_shard = 0;
  std::int64_t count = 0;
  bool operator==(const shard_slice&) const = default;
};

struct shard_map {
  std::int32_t rank = 0;
  std::vector<element_range> ranges;  ///< of the arena, one a bucket
  std::vector<std::int64_t> begins;   ///< where each of them begins in the shard
  std::int64_t elements = 0;          ///< of the shard, padding included
  std::vector<shard_slice> slices;    ///< ordered by in_shard; what is not in one is padding
};

/// Refused: a rank outside the catalogue's ranks.
base::expected<shard_map> make_shard_map(const catalogue& layout, std::int32_t rank);

}  // namespace quern::policy
