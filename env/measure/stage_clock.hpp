// Where the seconds of an evaluation go, by scope.
#pragma once

#include "base/clock.hpp"

namespace quern::env {

/// Adds the seconds of a scope, by the wall clock, to a sum that outlives it. One thread.
class stage_clock {
 public:
  explicit stage_clock(double& seconds) : seconds_(seconds), start_(clock_.now_ns()) {}
  ~stage_clock() { seconds_ += static_cast<double>(clock_.now_ns() - start_) * 1e-9; }
  stage_clock(const stage_clock&) = delete;
  stage_clock& operator=(const stage_clock&) = delete;

 private:
  base::steady_clock clock_;
  double& seconds_;
  base::nanoseconds_t start_;
};

}  // namespace quern::env
