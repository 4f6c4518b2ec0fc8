// Runs and times references and baselines for `quern tasks check`, in the sandboxes that
// evaluations use.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/tensor_task/check.hpp"

namespace quern::env {

/// The oracle of check_task(). Of the options it uses programs, cache folder, core and sandbox
/// mode. One thread; owns the processes that it starts.
base::expected<std::unique_ptr<reference_oracle>> open_cpp_oracle(const evaluator_options& options);

/// Bandwidth at the task's footprint and arithmetic of one core, measured here (a few ms).
machine_peak measure_peak(const task_instance& at);

}  // namespace quern::env
