// What the ranks of a trainer exchange in a step (ZeRO-1): gradients in, sums, weights out. It is
// all queued first and waited for once, at the end of the step, so that on GPUs the host runs ahead
// of norm, clipping and optimiser as it does with one rank.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/status.hpp"
#include "policy/collectives/communicator.hpp"
#include "policy/weights/catalogue.hpp"
#include "policy/weights/shard_map.hpp"

namespace quern::policy {

/// With one rank (no group) nothing is exchanged, and everything is there at once. The first error
/// stays until `settle`, and nothing is begun after it. One thread at a time.
class shard_exchange {
 public:
  shard_exchange() = default;
  /// `group` may be null and must outlive it.
  shard_exchange(communicator* group, const catalogue& layout, shard_map shard);

  /// Begins to sum bucket number `bucket` of `gradients`, [layout.elements], over the ranks, into
  /// this rank's part of `shard`, [shard.elements]. Its room in `gradients` is used.
  void reduce(std::size_t bucket, const at::Tensor& gradients, const at::Tensor& shard);
  /// What is queued from here on finds all that was reduced.
  void follow_reduced();
  /// Sums, or largest values, over the ranks, in place. With `now` what is queued from here on
  /// finds them; else they are there after `settle`.
  void all_reduce(const at::Tensor& values, reduction how, std::string_view what, bool now);
  /// Begins to put bucket number `bucket` of `flat`, [layout.elements], together from all ranks'
  /// parts of `shard`.
  void gather(std::size_t bucket, const at::Tensor& shard, const at::Tensor& flat,
              std::string_view what);
  void gather_all(const at::Tensor& shard, const at::Tensor& flat, std::string_view what);
  /// Something could not be begun, or went wrong before it was waited for: `settle` tells.
  [[nodiscard]] bool failed() const { return !first_error_; }
  /// Waits for everything that was begun, in order. The first error of it and of what came before.
  base::status settle();

 private:
  void add(base::expected<pending> begun);
  [[nodiscard]] at::Tensor part(std::size_t bucket, const at::Tensor& shard) const;

  communicator* group_ = nullptr;
  std::vector<bucket> buckets_;
  shard_map shard_;
  std::vector<pending> under_way_;
  base::status first_error_;
};

}  // namespace quern::policy
