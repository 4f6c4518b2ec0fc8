// A module's task on a GPU: what does not depend on the candidate, and the processes of its
// reference, which stay.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "env/core/output_limits.hpp"
#include "env/lanes/pytorch/calibration.hpp"
#include "env/lanes/pytorch/gpu/device_module.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/measure/step_clock.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::env {

/// The content of one call.
struct module_case {
  std::string name;
  std::uint64_t seed = 0;
  std::string_view family = "nominal";
  bool changed = false;                ///< one element differs from what the seed gives
  std::optional<output_limits> limit;  ///< find_limit() finds it when it is first needed
  /// By the scale of the reference's results alone, without f64 (find_narrow_limit()): never wider
  /// than `limit`, so what lies within it is right.
  std::optional<output_limits> narrow;
  /// Contents of timed calls are drawn in a row, by one secret: how many, and which of them this
  /// is. 0: drawn alone.
  std::size_t row = 0, number = 0;
};

/// The processes of a reference. They stay when the task changes: to make a context takes half a
/// second, to load another module some milliseconds.
struct module_processes {
  std::unique_ptr<device_module> content;    ///< makes content
  std::unique_ptr<device_module> reference;  ///< is called
  /// Is called as the baseline that is measured, where that is not eager (module_baseline.hpp). It
  /// ends with the task.
  std::unique_ptr<device_module> baseline;
  baseline_choice baseline_is = baseline_choice::eager;
  std::uint64_t lent = 0;  ///< module_memory::making() of what they have mapped; 0: nothing
};

struct device_module_task {
  std::shared_ptr<const task> subject;
  std::string id;
  module_sheet sheet;
  module_making making;
  lent_weights weights;
  module_places places;
  std::vector<module_case> cases;  ///< the first: as timed calls have it
  /// Whether the reference has run in f64. False: on no content so far, of which one was asked for
  /// alone on the device, or it draws and is not asked. Empty: not asked yet.
  std::optional<bool> in_f64;
  /// Of the first case, on its one content.
  std::vector<result_scale> first_scales;
  /// widen_limit() took more contents, or need not.
  bool is_widened = false;
  /// Why the reference does not say of results of the first distribution beyond the limit that is
  /// known whether they are right; empty: it does, or nobody has asked.
  std::optional<base::error> cannot_widen;
  /// Largest error of the reference against itself in f64, over what a candidate may be off.
  double share_of_limit = 0;
  double floor_ns = 0;     ///< least time of a call, by the roofline
  double baseline_ns = 0;  ///< a first idea of a call of the reference
  int slots = 1;           ///< calls of a timed window
  /// Contents that are drawn in a row, for several windows; 0: they are too large.
  int row = 0;
  module_processes processes;  ///< of the task that is judged; none of the others

  device_module_task(lent_weights of, task_instance at)
      : weights(std::move(of)), places(std::move(at)) {}
};

/// Makes the content of a case in each slot of `memory.staging()`, by the process of the task, when
/// the device has done what `context` asked of it. The same case gives the same content. Errors as
/// reference_error().
base::status make_content(device_module_task& of, std::span<const module_case> window,
                          device_context& context, module_memory& memory);
/// The same for the row of one of its cases, in the slots behind those of a window.
base::status make_row(device_module_task& of, const module_case& of_row, device_context& context);
/// So many calls of the reference on it: their outputs are in memory.reference_outputs().
answered<base::nanoseconds_t> call_reference(device_module_task& of, int calls);

/// Lends the memory of the task's calls to its processes, where they do not have it. Reserves it.
base::status lend_again(device_module_task& of, module_memory& memory);

/// What an evaluator makes its tasks with.
struct module_terms {
  std::uint64_t input_seed = 0;  ///< secret
  int core = -1;                 ///< on which models are called
  bool draws_on_core = false;    ///< as module_making has it
  /// The task's, of tensors without memory, where that is known: whether it fits on the device.
  std::optional<module_sheet> ahead;
  /// What a window of the reference lasts, where it has so many calls; 0: as in a run.
  double window_ns = 0;
  step_seconds& steps;  ///< where the seconds of a preparation go
};

/// The processes of a task that is left, without its module. Those that cannot go on with another
/// one, since the module changed torch's settings or failed, have ended.
module_processes leave(device_module_task& of);

/// Describes the module, and finds how many calls a window has. How far results may be from the
/// reference's is found when a candidate has some (module_limits.hpp). `left`: of leave(); what is
/// not there is started. Errors: invalid_argument says what is wrong with the task or its
/// reference; exhausted: it needs more than this device has; anything else is of this host.
base::expected<std::unique_ptr<device_module_task>> prepare_device_module(
    std::shared_ptr<const task> subject, module_processes left, python_zygote& zygote,
    device_context& context, module_memory& memory, const module_terms& terms);

/// A task that was left is judged again: its weights are drawn and written once more, the same
/// ones. Errors as prepare_device_module()'s.
base::status resume(device_module_task& of, module_processes left, python_zygote& zygote,
                    module_memory& memory, const module_terms& terms);

/// Limits for a process with a GPU that only computes: it waits by looking again and again, so CPU
/// time says nothing.
constexpr question_limits device_limits(double wall_s) {
  return {.cpu_s = wall_s, .wall_s = wall_s};
}

/// What a process with a GPU is started with; its files go to its folder later.
python_start device_start(bool with_extensions);

}  // namespace quern::env
