// A module's task on a GPU: what does not depend on the candidate, and the processes of its
// reference, which stay.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/core/output_limits.hpp"
#include "env/lanes/pytorch/gpu/device_module.hpp"
#include "env/lanes/pytorch/module_task.hpp"

namespace quern::env {

/// The content of one call.
struct module_case {
  std::string name;
  std::uint64_t seed = 0;
  std::string_view family = "nominal";
  bool changed = false;  ///< one element differs from what the seed gives
  output_limits limit;
};

struct device_module_task {
  std::shared_ptr<const task> subject;
  std::string id;
  module_sheet sheet;
  module_making making;
  module_weights weights;
  module_places places;
  std::vector<module_case> cases;  ///< the first: as timed calls have it
  double floor_ns = 0;             ///< least time of a call, by the roofline
  double baseline_ns = 0;          ///< a first idea; 0: it was never timed
  std::uint64_t lent = 0;          ///< module_memory::making() of what its processes have mapped
  std::unique_ptr<device_module> content, reference;

  device_module_task(module_weights of, task_instance at)
      : weights(std::move(of)), places(std::move(at)) {}
};

/// Makes the content of a case in `memory.staging()`, by the process of the task. The same case
/// gives the same content. Errors as reference_error().
base::status make_content(device_module_task& of, const module_case& what, device_desk& desk,
                          module_memory& memory);
/// A call of the reference on it: its outputs are in memory.reference_outputs().
answered<base::nanoseconds_t> call_reference(device_module_task& of);

/// Lends the memory of the task's calls to its processes, where they do not have it. Reserves it.
base::status lend_again(device_module_task& of, module_memory& memory);

/// What an evaluator makes its tasks with.
struct module_terms {
  std::uint64_t input_seed = 0;  ///< secret
  int core = -1;                 ///< on which models are called
};

/// Starts the reference's processes, describes the module, and finds how far results may be from
/// the reference's, by running it in f64, too. Errors: invalid_argument says what is wrong with the
/// task or its reference; exhausted: it needs more than this device has; anything else is of this
/// host.
base::expected<std::unique_ptr<device_module_task>> prepare_device_module(
    std::shared_ptr<const task> subject, python_zygote& zygote, device_desk& desk,
    module_memory& memory, const module_terms& terms);

/// Limits for a process with a GPU that only computes: it waits by looking again and again, so CPU
/// time says nothing.
constexpr question_limits device_limits(double wall_s) {
  return {.cpu_s = wall_s, .wall_s = wall_s};
}

/// What a process with a GPU is started with; its files go to its folder later.
python_start device_start(bool with_extensions);

}  // namespace quern::env
