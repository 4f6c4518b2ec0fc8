// A transfer plan: which ranges of one arena go where in another. It is made once from two
// catalogues and hashed, so that both ends can agree on it before a byte moves. Equal layouts give
// one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "policy/weights/catalogue.hpp"

namespace quern::policy {

/// `count` contiguous elements. Offsets from the start of the arenas.
struct copy_range {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t count = 0;
  bool operator==(const copy_range&) const = default;
};

struct transfer_plan {
  weight_dtype dtype = weight_dtype::f32;
  std::vector<copy_range> copies;  ///< ordered by target, merged where both sides are contiguous
  std::int64_t elements = 0;       ///< sum of counts, padding of a flat copy included
  base::hash128 hash;              ///< of both layouts and all copies
};

/// Everything that `target` needs and `source` holds. With tensor parallelism a target is filled
/// from several sources, a plan each; `covers` tells whether a set of plans fills it. Refused:
/// different models (names, whole shapes) or dtypes; converting is not transferring.
base::expected<transfer_plan> make_plan(const catalogue& source, const catalogue& target);

/// Do these plans together write every parameter of `target` exactly once?
bool covers(std::span<const transfer_plan> plans, const catalogue& target);

/// Carries a plan out between two arenas in memory.
base::status run_plan(const transfer_plan& plan, std::span<const std::byte> source,
                      std::span<std::byte> target);

}  // namespace quern::policy
