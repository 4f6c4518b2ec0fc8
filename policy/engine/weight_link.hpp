// New weights from a learner's rank to a generator, from arena to arena: over NCCL between GPUs
// (also of different hosts), over Gloo in host memory. Every generator has a link of its own, a
// group of two: one that dies ends its own link and nothing else. Through shared memory on one
// host: policy/weights/weight_channel.hpp. Two-phase as there: the receiver fills a staging arena,
// checks the hash that was announced, and only then switches.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "base/status.hpp"
#include "policy/collectives/communicator.hpp"
#include "policy/weights/plan.hpp"

namespace quern::policy {

/// Not thread-safe; each end has one, in a thread of its own choice.
class weight_link {
 public:
  /// Waits for the other end at `where`, of two ranks: 0 sends, 1 receives. The transport follows
  /// the device.
  static base::expected<std::unique_ptr<weight_link>> open(const meeting_place& where,
                                                           at::Device device);

  /// Both ends, ahead of the first version: the first transfer between two GPUs would else take a
  /// hundred times as long as those after it.
  base::status warm_up(std::int64_t version);
  /// Rank 0: the ranges of `plan` out of `arena`, flat and of the plan's source layout.
  base::status send(const transfer_plan& plan, const at::Tensor& arena, std::int64_t version);
  /// Rank 1: into `arena`, flat and of the plan's target layout. After an error the arena holds
  /// anything.
  base::status receive(const transfer_plan& plan, at::Tensor& arena, std::int64_t version);
  [[nodiscard]] meeting& link() { return group_->link(); }

 private:
  weight_link(std::unique_ptr<communicator> group, at::Device device)
      : group_(std::move(group)), device_(device) {}
  base::status carry(const transfer_plan& plan, const at::Tensor& arena, std::int64_t version);
  std::unique_ptr<communicator> group_;
  at::Device device_;
};

}  // namespace quern::policy
