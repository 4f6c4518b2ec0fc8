// A device and all that lives on it, for a lane whose candidates run there: the memory, the runners
// and references, and what is known of tasks.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "env/gpu/lent_memory.hpp"
#include "env/gpu/parts.hpp"
#include "env/gpu/process_memory.hpp"
#include "env/gpu/process_reaper.hpp"
#include "env/gpu/quiet.hpp"
#include "env/gpu/reference_process.hpp"
#include "env/gpu/runner_pool.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/recently_used.hpp"

namespace quern::env {

/// Runners of each side that stay alive: placement differs between processes, not within one.
inline constexpr std::size_t resident_runners = 3;

/// Whether a sandbox with fewer layers than it should have is an error.
inline bool locks_required(const evaluator_options& options) {
  return options.sandbox_required && !options.layers;
}

/// Tasks whose instances are kept: a run that draws its tasks has no end of them.
inline constexpr std::size_t most_gpu_tasks = 64;

/// What of a task does not depend on the candidate. `floor_ns`: least time of a call at the timed
/// sizes, by the roofline.
struct device_task {
  std::vector<device_instance> hidden;
  device_instance timed;
  double floor_ns = 0;
};

/// The device and all that lives on it, which ends with this object. Used from one thread; threads
/// of its own start and end processes.
class device_manager {
 public:
  /// `children`, `options` and `parts` (may be null) outlive it; the context becomes its own.
  /// `cuda_library`: what runners load. `secret`: of the addresses of lent memory.
  device_manager(spawner& children, const evaluator_options& options, gpu_access access,
                 std::unique_ptr<device_context> context, std::filesystem::path cuda_library,
                 std::uint64_t secret, gpu_parts* parts);

  [[nodiscard]] device_context& context() { return *context_; }
  [[nodiscard]] lent_memory& memory() { return memory_; }

  /// A resident runner for the device-only form, started where it is missing: the candidate's are 0
  /// … resident_runners - 1, those behind them run plain baselines. Its output buffer has the same
  /// number.
  base::expected<gpu_runner_process*> resident(std::size_t i);
  /// Ends a resident that is of no more use.
  void retire(std::size_t i) { reaper_.add(std::move(residents_[i])); }
  /// A process of its own for a candidate in host-entry form.
  base::expected<std::unique_ptr<gpu_runner_process>> fresh(work_queues queues) {
    return pool_.take(queues);
  }
  /// The same with vendor libraries in reach; started now, since few candidates need one.
  base::expected<std::unique_ptr<gpu_runner_process>> fresh_with(
      const std::filesystem::path& libraries);
  /// Ends it beside what comes next; whoever holds the device quiet has waited for that.
  void let_go(std::unique_ptr<gpu_runner_process> process) { reaper_.add(std::move(process)); }
  /// Held while anything is timed.
  [[nodiscard]] device_quiet& quiet() { return quiet_; }
  [[nodiscard]] gpu_parts* parts() { return parts_; }

  /// Reference runner `i` with the task's script. invalid_argument: the script does not compile;
  /// unavailable: the runner could not be started or asked.
  base::expected<bound_runner> reference(std::size_t i, const task& what);
  void retire_reference(std::size_t i) { references_[i] = {}; }
  /// Of the device's memory, as measured here; 0: it could not be. bytes a second.
  [[nodiscard]] double bandwidth() const { return bandwidth_; }
  /// Instances and floor of a task, good until the next one is prepared. Errors: the task is not
  /// valid.
  base::expected<const device_task*> prepare(const std::shared_ptr<const task>& subject);

  /// Seconds that a plan may take for a check at these sizes with so many planted calls, by the
  /// roofline, at most `most_s`; the same for whoever comes first and last.
  double check_limit_s(const device_instance& at, int planted_calls, double most_s);

  /// Of the device, with what is lent; 0: not told.
  std::uint64_t free_bytes();
  /// To look at what a candidate's own process takes. It must not outlive this object.
  process_memory memory_of_process();
  /// Ends a process that took much, with nothing else going on; text: what was not given back.
  std::optional<std::string> end_large(std::unique_ptr<gpu_runner_process> process,
                                       const process_memory& memory);

 private:
  struct reference_place {
    std::unique_ptr<gpu_reference_process> process;
    std::string script_of;  ///< id of the task
  };
  double floor_of(const task_instance& at);
  gpu_pool_options pool_options();
  [[nodiscard]] gpu_runner_start start_of_runner() const;

  spawner& children_;
  const evaluator_options& options_;
  gpu_access access_;
  std::unique_ptr<device_context> context_;
  std::filesystem::path cuda_library_;
  lent_memory memory_;
  gpu_parts* parts_;
  device_quiet quiet_;
  gpu_process_reaper reaper_;
  gpu_runner_pool pool_;
  std::array<std::unique_ptr<gpu_runner_process>, 2 * resident_runners> residents_;
  std::array<reference_place, resident_runners> references_;
  recently_used<device_task> tasks_{most_gpu_tasks};
  double bandwidth_ = 0;
};

}  // namespace quern::env
