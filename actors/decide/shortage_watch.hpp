// When to say that a run has no device to evaluate on.
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

  /// That nobody is there, which is so at every start, is said after `patience`.
  explicit shortage_watch(nanoseconds_t patience) : patience_(patience) {}

  enum class news : std::uint8_t { none, begun, goes_on, over };

  /// `working`: hosts that take work; `quarantined`: others are there whose devices are all in
  /// quarantine; `needed`: there is something for them to do. A shortage begins with a quarantine,
  /// or when nobody has been there while needed for longer than the patience. It ends with a host
  /// that works: that the sick host leaves does not end it.
  news look(std::size_t working, bool quarantined, bool needed, nanoseconds_t now) {
    if (working > 0) {
      missed_since_.reset();
      return std::exchange(lasts_, false) ? news::over : news::none;
    }
    if (!needed) {
      missed_since_.reset();
    } else if (!missed_since_) {
      missed_since_ = now;
    }
    if (!lasts_) {
      const bool missed = missed_since_ && now >= *missed_since_ + patience_;
      if (!quarantined && !missed) return news::none;
      lasts_ = true;
      begin_ = missed ? *missed_since_ : now;
      said_ = now;
      return news::begun;
    }
    if (now < said_ + every) return news::none;
    said_ = now;
    return news::goes_on;
  }

  /// When `look` has something to say, if nothing changes; none: there is no shortage.
  [[nodiscard]] std::optional<nanoseconds_t> due() const {
    if (lasts_) return said_ + every;
    return missed_since_ ? std::optional(*missed_since_ + patience_) : std::nullopt;
  }
  /// Since the newest shortage began.
  [[nodiscard]] nanoseconds_t lasted(nanoseconds_t now) const { return now - begin_; }

 private:
  nanoseconds_t patience_;
  std::optional<nanoseconds_t> missed_since_;  ///< nobody has been there, and was needed
  bool lasts_ = false;
  nanoseconds_t begin_ = 0;
  nanoseconds_t said_ = 0;
};

}  // namespace quern::actors
