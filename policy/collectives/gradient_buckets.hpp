// In which order the gradients of a backward pass are handed to the other ranks. Every rank must
// start the same collectives in the same order, but threads finish their layers in any: a bucket
// that is ready early waits for those before it.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace quern::policy {

/// Thread-safe. The order is that of the backward pass: the last bucket of the arena (head) first,
/// the first (embedding) last.
class gradient_buckets {
 public:
  /// `threads` must each report a bucket before it is ready.
  gradient_buckets(std::size_t buckets, std::size_t threads)
      : missing_(buckets, threads), next_(buckets) {}

  /// One thread has finished its part of `bucket`. Calls `launch(b)`, under the lock and in order,
  /// for every bucket that is now ready and has none before it that is not.
  template <class Launch>
  void finished(std::size_t bucket, Launch launch) {
    const std::lock_guard lock(mutex_);
    if (missing_[bucket] > 0) --missing_[bucket];
    while (next_ > 0 && missing_[next_ - 1] == 0)
      launch(--next_);
  }
  /// All were launched.
  [[nodiscard]] bool complete() const { return next_ == 0; }

 private:
  std::mutex mutex_;
  std::vector<std::size_t> missing_;
  std::size_t next_;
};

}  // namespace quern::policy
