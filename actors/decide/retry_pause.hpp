// How long an attempt that failed on this machinery waits before it is made again: attempts are
// few, and must outlast what is sick for a while, such as a full disk.
#pragma once

#include <algorithm>

#include "actors/decide/ids.hpp"

namespace quern::actors {

/// Pauses before the retries of one job. Each is four times the one before, and all together take
/// `patience_ns`, whatever their number:
///   pause(k) = patience * 3/4 * 4^(k - retries),  k = 1 .. retries;  of one retry: patience.
struct retry_pause {
  nanoseconds_t patience_ns = 30'000'000'000;

  /// After the k-th failure, of a job that is tried again `retries` times in all.
  [[nodiscard]] nanoseconds_t after(int failures, int retries) const {
    if (retries <= 1) return patience_ns;
    const int later = std::clamp(retries - failures, 0, 31);
    return patience_ns / 4 * 3 >> (2 * later);
  }
};

}  // namespace quern::actors
