// Time as a parameter: whoever decides by time is given a clock, so that tests hold one in their
// hand.
#pragma once

#include <cstdint>

namespace quern::base {

/// Nanoseconds; a duration or a point on some clock.
using nanoseconds_t = std::int64_t;

constexpr nanoseconds_t operator""_ns(unsigned long long n) {
  return static_cast<nanoseconds_t>(n);
}
constexpr nanoseconds_t operator""_us(unsigned long long n) {
  return static_cast<nanoseconds_t>(n) * 1'000;
}
constexpr nanoseconds_t operator""_ms(unsigned long long n) {
  return static_cast<nanoseconds_t>(n) * 1'000'000;
}
constexpr nanoseconds_t operator""_s(unsigned long long n) {
  return static_cast<nanoseconds_t>(n) * 1'000'000'000;
}

class clock {
 public:
  virtual ~clock() = default;
  /// Monotone; the origin is arbitrary.
  [[nodiscard]] virtual nanoseconds_t now_ns() const = 0;
};

/// CLOCK_MONOTONIC. Thread-safe.
class steady_clock final : public clock {
 public:
  [[nodiscard]] nanoseconds_t now_ns() const override;
};

/// Moves only when told to; never backwards.
class manual_clock final : public clock {
 public:
  explicit manual_clock(nanoseconds_t start = 0) : now_(start) {}
  [[nodiscard]] nanoseconds_t now_ns() const override { return now_; }
  void advance(nanoseconds_t by) { now_ += by > 0 ? by : 0; }

 private:
  nanoseconds_t now_;
};

/// For a watch that looks at least every few seconds: time in which its process did not run (it was
/// stopped, or its machine was) is no time that what it watches has had. Not thread-safe.
class stood_still {
 public:
  /// Beyond this a pause between two looks is one in which nothing ran.
  static constexpr nanoseconds_t longest_look = 10'000'000'000;

  explicit stood_still(nanoseconds_t now) : looked_(now) {}
  /// A look: how much of the time since the last one, and since `since`, is not to be counted.
  nanoseconds_t until(nanoseconds_t now, nanoseconds_t since) {
    const nanoseconds_t still = now - looked_ - longest_look;
    looked_ = now;
    const nanoseconds_t most = now > since ? now - since : 0;
    return still < 0 ? 0 : still < most ? still : most;
  }

 private:
  nanoseconds_t looked_;
};

/// Wall clock, nanoseconds since 1970 UTC: for records that people read, never for decisions.
nanoseconds_t unix_time_ns();

}  // namespace quern::base
