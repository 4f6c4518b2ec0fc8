// One end of a link for weights (policy/engine/weight_link.hpp), which another thread may end at
// any time.
#pragma once

#include <memory>
#include <mutex>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "policy/engine/weight_link.hpp"

namespace quern::actors {

/// Thread-safe. It outlives the link that it opened, and whoever is done with that ends it, so that
/// the other end learns of it.
class link_end {
 public:
  /// Until the other end is there, for as long as `patience` lets it. Errors: unavailable, when it
  /// does not come; whatever opening the transport gives.
  base::expected<std::unique_ptr<policy::weight_link>> open(policy::rendezvous_options where,
                                                            at::Device device,
                                                            base::nanoseconds_t patience);
  /// Whatever either end does or waits for fails, now and from now on.
  void end();
  [[nodiscard]] bool ended() const;

 private:
  void keep(const std::shared_ptr<policy::rendezvous>& met);

  mutable std::mutex mutex_;
  std::shared_ptr<policy::rendezvous> met_;
  bool ended_ = false;
};

}  // namespace quern::actors
