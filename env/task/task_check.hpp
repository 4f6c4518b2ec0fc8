// What `quern tasks check` finds, and what a lane provides to find it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

class reference_timer;
struct task;

/// One finding. `fatal` ones refuse the task; the others are advice.
struct task_finding {
  bool fatal = true;
  std::string rule;  ///< short name: constant_output, ignored_input, tolerance, …
  std::string text;  ///< what was found, the limit, what to do
};

/// Numbers that a lane's checks do not find are 0.
struct task_report {
  std::vector<task_finding> findings;
  /// What the task is, a line each, where a lane finds it out by running the reference.
  std::vector<std::string> facts;
  std::int64_t baseline_ns = 0;
  std::int64_t floor_ns = 0;
  /// Largest |y - y64| / (atol + rtol |y64|) of the reference against itself in f64; beyond 1/2 a
  /// right kernel that adds in another order has no room.
  double worst_error = 0;
  std::string worst_at;  ///< sizes and distributions of it; empty where it is 0

  /// No fatal finding.
  [[nodiscard]] bool ok() const {
    return std::none_of(findings.begin(), findings.end(),
                        [](const task_finding& one) { return one.fatal; });
  }
};

/// Whether a quick check tries baselines that have to be compiled.
enum class plain_baselines { try_them, leave_out };

/// Checks tasks of one lane on this machine: do they teach the right thing? Used from one thread.
class task_checker {
 public:
  virtual ~task_checker() = default;

  /// Every rule of the lane; minutes. `seed`: of the content on which references are run. Error:
  /// the references could not be run.
  virtual base::expected<task_report> check(const task& what, std::uint64_t seed) = 0;

  /// The rules that take some tenths of a second, and a compiler's time where a plain baseline is
  /// tried. Nothing is timed. What fails is a finding, so that one broken task does not hide the
  /// others. Error (unavailable): the references could not be run.
  virtual base::expected<task_report> check_quickly(const task& what, std::uint64_t seed,
                                                    plain_baselines plain) = 0;

  /// Times references alone, on the same device (env/task/reference_timer.hpp); lives as long as
  /// this object. Null: this lane has none.
  virtual reference_timer* timer() { return nullptr; }
};

}  // namespace quern::env
