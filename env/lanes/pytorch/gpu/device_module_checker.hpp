// `quern tasks check --gpu N` of tasks whose reference is a module: on that GPU, as an evaluation
// prepares them.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_state.hpp"
#include "env/task/task_check.hpp"

namespace quern::env {

/// Checks tasks by what an evaluator has on its device, which nobody else uses meanwhile. What the
/// device cannot hold, or follow, is skipped. The limits of a task that check_options has
/// (--task-s, --task-gib) are of cores.
class device_module_checker final : public task_checker {
 public:
  explicit device_module_checker(std::unique_ptr<pytorch_device_evaluator::state> with)
      : own_(std::move(with)), with_(*own_) {}
  /// `with` outlives it.
  explicit device_module_checker(pytorch_device_evaluator::state& with) : with_(with) {}

  base::expected<task_report> check(const task& what, std::uint64_t seed) override;
  /// Without what takes further calls.
  base::expected<task_report> check_quickly(const task& what, std::uint64_t seed,
                                            plain_baselines plain) override;

 private:
  base::expected<task_report> look(const task& what, bool whole);
  base::status look_at_results(device_module_task& of, task_report& report);
  /// Inputs of which the results do not depend: with content of another call in one of them, the
  /// reference gives the same bits.
  base::expected<std::vector<std::size_t>> inputs_without_use(device_module_task& of);
  /// The reference's results of what lies in its inputs: in memory.reference_outputs().
  base::status call_on_inputs(device_module_task& of);

  std::unique_ptr<pytorch_device_evaluator::state> own_;
  pytorch_device_evaluator::state& with_;
};

}  // namespace quern::env
