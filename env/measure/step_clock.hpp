// Where the seconds of a stage go, by the name of a step.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace quern::env {

/// Seconds of each step since the beginning.
using step_seconds = std::map<std::string, double, std::less<>>;

/// Adds the seconds of one step after the other, by the wall clock, to a table that outlives it.
/// The last one ends with it. One thread.
class step_clock {
 public:
  step_clock(step_seconds& table, std::string_view first)
      : table_(table), step_(first), begun_(clock_.now_ns()) {}
  ~step_clock() { end(clock_.now_ns()); }
  step_clock(const step_clock&) = delete;
  step_clock& operator=(const step_clock&) = delete;

  /// The step so far is over, and this one begins.
  void next(std::string_view step) {
    const auto now = clock_.now_ns();
    end(now);
    step_ = step;
    begun_ = now;
  }

 private:
  void end(base::nanoseconds_t now) {
    auto at = table_.find(step_);
    if (at == table_.end()) at = table_.emplace(step_, 0.0).first;
    at->second += static_cast<double>(now - begun_) * 1e-9;
  }

  base::steady_clock clock_;
  step_seconds& table_;
  std::string_view step_;  ///< of a text that lives as long as the program
  base::nanoseconds_t begun_;
};

}  // namespace quern::env
