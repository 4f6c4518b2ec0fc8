// Work that a runner does between its answer and the next question, and what it costs.
//
// The clock stops with the answer. A candidate that answers first and works afterwards has the time
// in which the evaluator makes new inputs and the baseline runs. So what its process used there is
// charged to the window that was answered, less what a runner that can be trusted uses in the same
// place: it still has to go to sleep on a core that was just taken from it.
//
// With u the CPU time between answer and question, and q the 90th percentile of the same time of
// the trusted runner in this measurement, a window is charged max(0, u - q).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "env/measure/estimate.hpp"

namespace quern::env {

/// Of one measurement. Times are nanoseconds. Thread-compatible.
class idle_charge {
 public:
  /// If there are fewer trusted windows than `least_trusted`, a candidate is forgiven all.
  explicit idle_charge(std::size_t least_trusted = 5) : least_trusted_(least_trusted) {}

  /// A side's CPU clock at its answer, and just before the next question: what lies between is
  /// noted as the calls below do. Other questions in between make it worth nothing: forget().
  void answered(bool candidate, std::int64_t cpu_ns) { answered_[candidate ? 1 : 0] = cpu_ns; }
  void asked(bool candidate, std::int64_t cpu_ns);
  void forget() { answered_ = {-1, -1}; }

  /// The trusted runner's CPU time between an answer and the next question.
  void saw_trusted(double used_ns) { trusted_.push_back(used_ns); }

  /// A pair of windows was kept; what the candidate used behind its window is not known yet.
  void begin_pair() { used_.push_back(0); }
  /// It is: of the pair that was begun last, once.
  void end_pair(double used_ns);

  /// What is forgiven: q; where too few trusted windows were seen, without bound.
  [[nodiscard]] double forgiven_ns() const;
  /// The pairs with what each is charged; there is one for each begin_pair(). `calls`: of a window.
  [[nodiscard]] process_pairs charged(process_pairs pairs, std::int64_t calls) const;

 private:
  std::size_t least_trusted_;
  std::array<std::int64_t, 2> answered_{-1, -1};  ///< of the trusted side, of the candidate
  std::vector<double> trusted_, used_;
  std::size_t ended_ = 0;
};

}  // namespace quern::env
