// Which run of an ablation begins next where several are made side by side.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tools/ablate/plan.hpp"

namespace quern::tools {

/// Hands out the runs of a plan. Refers to the plan, which must outlive it. Not thread-safe.
class ablation_schedule {
 public:
  ablation_schedule(const ablation_plan& plan, const std::vector<plan_state>& states);

  /// The run to begin, or to go on with, now: of those whose first weights are there, the one with
  /// most evaluations ahead. They are its own and those of the longest chain of runs after it: that
  /// chain is not to begin last. Of equal ones that of the first seed, so that seeds become
  /// complete one after the other, with all arms. Of these one that others wait for, then one whose
  /// chain has prompts that show kernels: these are timed, too, which takes twice as long. None:
  /// each that is left waits for one under way, or for one that ended before it was complete.
  std::optional<std::size_t> next();

  /// A run that `next` gave out has ended. One that is not complete is not given out again.
  void ended(std::size_t run, bool complete);

  /// Runs that are not complete, be they under way or not.
  [[nodiscard]] std::size_t left() const;

 private:
  enum class run_state { waiting, under_way, complete, ended };
  [[nodiscard]] bool can_begin(std::size_t run) const;
  [[nodiscard]] bool comes_before(std::size_t run, std::size_t other) const;
  const ablation_plan& plan_;
  std::vector<run_state> states_;
  std::vector<std::int64_t> ahead_;
  /// Whether another run begins with its weights.
  std::vector<bool> is_waited_for_;
  /// Whether prompts of it, or of one after it, show kernels.
  std::vector<bool> shows_kernels_;
};

}  // namespace quern::tools
