// A clock for budgets of measuring: it stands still while a lane makes content.
#pragma once

#include "base/clock.hpp"

namespace quern::env {

/// Time since it was made, without what was spent between pause() and go_on(), of which at most
/// `most_paused` is left out: making content may take many times what the calls take, but not for
/// ever. Plain class. One thread.
class measuring_clock final : public base::clock {
 public:
  /// `by` outlives it.
  measuring_clock(const base::clock& by, base::nanoseconds_t most_paused)
      : by_(by), left_(most_paused) {}

  [[nodiscard]] base::nanoseconds_t now_ns() const override { return by_.now_ns() - paused_; }
  void pause() { since_ = by_.now_ns(); }
  void go_on() {
    const base::nanoseconds_t took = by_.now_ns() - since_;
    const base::nanoseconds_t counted = took < left_ ? took : left_;
    paused_ += counted;
    left_ -= counted;
  }

 private:
  const base::clock& by_;
  base::nanoseconds_t left_;
  base::nanoseconds_t paused_ = 0;
  base::nanoseconds_t since_ = 0;
};

}  // namespace quern::env
