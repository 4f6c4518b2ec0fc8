// New weights from a learner's rank to a generator, from arena to arena: over NCCL between GPUs
// (also of different hosts), over Gloo in host memory. Every generator has a link of its own, a
// group of two: one that dies ends its own link and nothing else. Through shared memory on one
// host: policy/weights/weight_channel.hpp. Two-phase as there: the receiver fills a staging arena,
// checks the hash that was announced, and only then switches. Nothing is sent before the receiver
// asks for it, so that a slow one holds up neither the sender's GPU nor other links, and gets the
// version that is the newest when its turn comes.
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
  static base::expected<std::unique_ptr<weight_link>> open(const rendezvous_options& where,
                                                           at::Device device);
  /// Where both ends have met already. `rendezvous::cut` of that rendezvous ends, from any thread,
  /// whatever an end waits for.
  static base::expected<std::unique_ptr<weight_link>> open(std::shared_ptr<rendezvous> met,
                                                           at::Device device);

  /// Both ends, before anything is sent: that they mean the same ranges and elements. Error:
  /// conflict.
  base::status agree(const transfer_plan& plan, at::ScalarType type);
  /// Both ends, ahead of the first version: the first transfer between two GPUs would else take a
  /// hundred times as long as those after it.
  base::status warm_up(std::int64_t version);
  /// Rank 1: asks for a version, and waits for as long as it takes until one is offered, which is
  /// then to be received.
  base::expected<std::int64_t> ask();
  /// Rank 0: waits, for as long as it takes, until it is asked for a version.
  base::status wait_until_asked();
  /// Rank 0, once each time that it was asked: what it sends next.
  base::status offer(std::int64_t version);
  /// Rank 0: the ranges of `plan` out of `arena`, flat and of the plan's source layout.
  base::status send(const transfer_plan& plan, const at::Tensor& arena, std::int64_t version);
  /// Rank 1: into `arena`, flat and of the plan's target layout. After an error the arena holds
  /// anything.
  base::status receive(const transfer_plan& plan, at::Tensor& arena, std::int64_t version);
  [[nodiscard]] rendezvous& link() { return group_->link(); }

 private:
  weight_link(std::unique_ptr<communicator> group, at::Device device)
      : group_(std::move(group)), device_(device) {
    // Only a transfer is held to moving on: between two of them any time may pass.
    group_->link().busy(true);
  }
  base::status carry(const transfer_plan& plan, const at::Tensor& arena, std::int64_t version);
  std::unique_ptr<communicator> group_;
  at::Device device_;
  std::int64_t asked_ = 0;  ///< times; equal on both ends between two transfers
};

}  // namespace quern::policy
