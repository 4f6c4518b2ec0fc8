// How long a connection waits while another process holds run.db, and when that is said.
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace quern::storage {

using base::nanoseconds_t;

struct busy_limits {
  /// Somebody's copy or query in a shell takes seconds; a run is worth waiting for it.
  nanoseconds_t longest = 60'000'000'000;
  /// Said once when a wait has lasted so long.
  nanoseconds_t said_after = 3'000'000'000;
};

/// Asked each time that the database is found held. `now` is any monotone clock. Not thread-safe.
class busy_wait {
 public:
  explicit busy_wait(busy_limits limits) : limits_(limits) {}

  struct decision {
    nanoseconds_t pause = 0;  ///< before the next try
    bool say = false;         ///< it is time to say who holds it
    bool give_up = false;
  };
  /// `attempt`: 0 begins a new wait.
  decision held(int attempt, nanoseconds_t now) {
    if (attempt == 0) {
      begin_ = now;
      said_ = gave_up_ = false;
    }
    const nanoseconds_t left = begin_ + limits_.longest - now;
    gave_up_ = left <= 0;
    const bool say = !said_ && !gave_up_ && now - begin_ >= limits_.said_after;
    said_ = said_ || say;
    constexpr nanoseconds_t shortest_pause = 1'000'000, longest_pause = 100'000'000;
    const nanoseconds_t pause = std::min(shortest_pause << std::min(attempt, 10), longest_pause);
    return {std::clamp<nanoseconds_t>(left, 0, pause), say, gave_up_};
  }
  /// The database was had. True, once, where it was said that it was held.
  bool had() {
    const bool was = said_;
    said_ = false;
    return was;
  }

  /// Whether the newest wait was in vain.
  [[nodiscard]] bool gave_up() const { return gave_up_; }
  [[nodiscard]] nanoseconds_t waited(nanoseconds_t now) const { return now - begin_; }
  [[nodiscard]] const busy_limits& limits() const { return limits_; }

 private:
  busy_limits limits_;
  nanoseconds_t begin_ = 0;
  bool said_ = false;
  bool gave_up_ = false;
};

}  // namespace quern::storage
