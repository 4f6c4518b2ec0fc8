// How far a run is, when it will be done, and whether it still moves.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "actors/decide/ids.hpp"

namespace quern::actors {

/// Not thread-safe.
class progress {
 public:
  struct options {
    std::int64_t steps = 0;                    ///< goal; 0: none, there is no ETA
    std::size_t recent = 16;                   ///< steps that the pace is taken from
    nanoseconds_t stall_ns = 300'000'000'000;  ///< no progress for so long: the watchdog speaks
  };

  /// `done`: steps that an earlier life of the run made.
  progress(options bounds, std::int64_t done, nanoseconds_t now);

  /// A step was finished. The number may fall after a rollback; the pace then starts anew.
  void stepped(std::int64_t done, nanoseconds_t now);
  /// Something else moved that shows life (a sample generated, a verdict): feeds the watchdog.
  void alive(nanoseconds_t now) { last_sign_ = now; }

  [[nodiscard]] std::int64_t done() const { return done_; }
  /// Time left: median of the recent step times x steps left, less what has passed of the current
  /// step (never negative). Empty before the first step and without a goal.
  [[nodiscard]] std::optional<nanoseconds_t> eta(nanoseconds_t now) const;
  /// The watchdog looks at progress, not at time alone: true if nothing has moved for `stall_ns`.
  [[nodiscard]] bool stalled(nanoseconds_t now) const {
    return now - last_sign_ >= options_.stall_ns;
  }
  [[nodiscard]] nanoseconds_t stall_after() const { return options_.stall_ns; }
  /// "step 12/64  19 %  1.8 s/step  left 1:33"
  [[nodiscard]] std::string line(nanoseconds_t now) const;

 private:
  [[nodiscard]] std::optional<nanoseconds_t> pace() const;

  options options_;
  std::int64_t done_;
  nanoseconds_t last_step_;
  nanoseconds_t last_sign_;
  std::deque<nanoseconds_t> times_;
};

/// "1:33", "2:05:00", "0:07".
std::string duration_text(nanoseconds_t duration);

}  // namespace quern::actors
