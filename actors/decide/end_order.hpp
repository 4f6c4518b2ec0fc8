// How a run was asked to end first: later orders change nothing of it.
#pragma once

#include <mutex>
#include <optional>

#include "actors/messages.hpp"

namespace quern::actors {

/// Thread-safe.
class end_order {
 public:
  /// Whether this is the first one, which is to be passed on.
  bool give(ending how) {
    const std::lock_guard lock(mutex_);
    if (first_) return false;
    first_ = how;
    return true;
  }
  /// The first one; none: nobody asked.
  [[nodiscard]] std::optional<ending> given() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<ending> first_;
};

}  // namespace quern::actors
