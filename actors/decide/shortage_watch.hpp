// When to say that a run has no device left to evaluate on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.hpp"

namespace quern::actors {

using base::nanoseconds_t;

/// `now` is any monotone clock. Not thread-safe.
class shortage_watch {
 public:
  /// While it lasts it is said again.
  static constexpr nanoseconds_t every = 120'000'000'000;

  enum class news : std::uint8_t { none, begun, goes_on, over };

  /// `working`: hosts that take work; `quarantined`: others are there whose devices are all in
  /// quarantine. A shortage begins with a quarantine and ends with a host that works: that the sick
  /// host leaves does not end it.
  news look(std::size_t working, bool quarantined, nanoseconds_t now) {
    if (working > 0) return std::exchange(lasts_, false) ? news::over : news::none;
    if (!lasts_) {
      if (!quarantined) return news::none;
      lasts_ = true;
      begin_ = said_ = now;
      return news::begun;
    }
    if (now < said_ + every) return news::none;
    said_ = now;
    return news::goes_on;
  }

  /// When `look` has something to say, if nothing changes; none: there is no shortage.
  [[nodiscard]] std::optional<nanoseconds_t> due() const {
    return lasts_ ? std::optional(said_ + every) : std::nullopt;
  }
  /// Since the newest shortage began.
  [[nodiscard]] nanoseconds_t lasted(nanoseconds_t now) const { return now - begin_; }

 private:
  bool lasts_ = false;
  nanoseconds_t begin_ = 0;
  nanoseconds_t said_ = 0;
};

}  // namespace quern::actors
