// What an evaluator of lane `cuda` works with. Internal to env/lanes/cuda.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "env/build/shared_compilation.hpp"
#include "env/device/device_watch.hpp"
#include "env/gpu/compiled_process.hpp"
#include "env/gpu/departures.hpp"
#include "env/gpu/device_timing.hpp"
#include "env/gpu/process_memory.hpp"
#include "env/gpu/reference_process.hpp"
#include "env/gpu/runner_pool.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/recently_used.hpp"
#include "env/judge/staged_evaluation.hpp"
#include "env/lanes/cuda/build.hpp"
#include "env/lanes/cuda/candidate.hpp"
#include "env/lanes/cuda/checks.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"
#include "env/measure/null_distribution.hpp"

namespace quern::env {

/// Runners of each side that stay alive: placement differs between processes, not within one.
inline constexpr std::size_t resident_runners = 3;

/// Whether a sandbox with fewer layers than it should have is an error.
inline bool locks_required(const evaluator_options& options) {
  return options.sandbox_required && !options.layers;
}

/// Tasks whose instances are kept: a run that draws its tasks has no end of them.
inline constexpr std::size_t most_gpu_tasks = 64;

/// What does not depend on the candidate.
struct cuda_task {
  std::vector<device_instance> hidden;
  device_instance timed;
  double floor_ns = 0;
};

/// The device and all that lives on it.
class cuda_stand {
 public:
  cuda_stand(spawner& children, const evaluator_options& options, gpu_access access,
             std::unique_ptr<device_desk> desk, std::filesystem::path cuda_library,
             std::uint64_t secret, gpu_parts* parts);

  [[nodiscard]] device_desk& desk() { return *desk_; }
  [[nodiscard]] lent_memory& memory() { return memory_; }

  /// A resident runner for the device-only form, started where it is missing: the candidate's are 0
  /// … resident_runners - 1, those behind them run plain baselines. Its seat has the same number.
  base::expected<gpu_runner_process*> resident(std::size_t i);
  /// Ends a resident that is of no more use.
  void retire(std::size_t i) { departures_.add(std::move(residents_[i])); }
  /// A process of its own for a candidate in host-entry form.
  base::expected<std::unique_ptr<gpu_runner_process>> fresh(work_queues queues) {
    return pool_.take(queues);
  }
  /// The same with vendor libraries in reach; started now, since few candidates need one.
  base::expected<std::unique_ptr<gpu_runner_process>> fresh_with(
      const std::filesystem::path& libraries);
  /// Ends it beside what comes next; whoever holds the device quiet has waited for that.
  void let_go(std::unique_ptr<gpu_runner_process> process) { departures_.add(std::move(process)); }
  /// Held while anything is timed.
  [[nodiscard]] device_quiet& quiet() { return quiet_; }
  [[nodiscard]] gpu_parts* parts() { return parts_; }

  /// A reference runner with the task's script.
  base::expected<reference_seat> reference(std::size_t i, const task& what);
  void retire_reference(std::size_t i) { references_[i] = {}; }
  /// Of the device's memory, as measured here; 0: it could not be. bytes a second.
  [[nodiscard]] double bandwidth() const { return bandwidth_; }
  /// Good until the next task is prepared.
  base::expected<const cuda_task*> prepare(const std::shared_ptr<const task>& subject);

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
  std::unique_ptr<device_desk> desk_;
  std::filesystem::path cuda_library_;
  lent_memory memory_;
  gpu_parts* parts_;
  device_quiet quiet_;
  gpu_departures departures_;
  gpu_runner_pool pool_;
  std::array<std::unique_ptr<gpu_runner_process>, 2 * resident_runners> residents_;
  std::array<reference_place, resident_runners> references_;
  recently_used<cuda_task> tasks_{most_gpu_tasks};
  double bandwidth_ = 0;
};

struct cuda_evaluator::state {
  evaluator_options options;
  std::unique_ptr<spawner> children;
  std::unique_ptr<cuda_compiler> nvcc;
  shared_compilation compilations;
  std::string architecture;
  std::string device_class;
  std::string environment;
  null_distribution null;
  std::uint64_t secret = 0;
  std::optional<compiled_references> compiled;
  std::unique_ptr<cuda_stand> stand;
  stage_seconds seconds;
  device_seconds device;
  gpu_parts parts;
  base::steady_clock clock;
  device_watch watch;
  device_quarantine quarantine;
  gpu_access access;
  /// Of the device when it was opened, with nothing of ours on it.
  std::uint64_t free_at_first = 0;
  std::optional<std::uint64_t> unaccounted_at_first;

  /// Everything on the device, around a desk.
  void make_stand(std::unique_ptr<device_desk> desk);
  /// What an evaluation that used the device says about it; `why` of its last finding.
  void look_after(verdict& v, runner::cause why);
  /// Whether the device computes and has its memory; empty: it does.
  std::optional<std::string> self_test();
  std::optional<std::string> memory_is_back(std::uint64_t free_now);
};

/// One evaluation: fills a verdict stage by stage and stops at the first finding.
class cuda_evaluation final : public staged_evaluation {
 public:
  cuda_evaluation(cuda_evaluator::state& with, const evaluation_request& request,
                  const measure_name& how, verdict& v)
      : staged_evaluation(request, how, v),
        with_(with),
        policy_(request.policy.value_or(with.options.policy)) {}

  void run() override;

 private:
  bool screen();
  bool build();
  bool verify();
  void time();
  bool measure(const measure_protocol& protocol, std::uint64_t round,
               std::vector<process_pairs>& into);
  bool take_baseline(timed_side& side, std::vector<loaded_candidate>& loaded);
  bool take_references(timed_side& side);
  bool take_compiled(timed_side& side);
  /// The task's plain kernel in runners of its own, loaded and told what a call is.
  bool take_plain(timed_side& side, std::vector<loaded_candidate>& loaded);
  bool take_candidates(timed_side& side, std::vector<loaded_candidate>& loaded, bool anew);
  [[nodiscard]] estimate_limits measuring_limits() const;
  finding judge_clocks(const gpu_timing_result& result);
  /// The runner in which the candidate is checked, with its code loaded.
  bool take_runner();
  bool check(const device_instance& of);
  /// Host-entry form: whether the candidate keeps to its share of the device's memory.
  bool within_memory();
  base::status take_own();
  /// Ends a candidate's own process.
  void end_own();
  /// Ends the resident runners that saw a candidate which may have left something in them.
  void retire_doubtful();
  void leave_device();
  std::uint64_t secret(std::uint64_t purpose);

  cuda_evaluator::state& with_;
  suite_policy policy_;
  std::optional<built_candidate> built_, plain_;
  const cuda_task* task_ = nullptr;
  std::unique_ptr<gpu_runner_process> own_;  ///< host-entry form
  std::optional<process_memory> own_memory_;
  std::optional<loaded_candidate> first_;
  std::size_t saw_it_ = 0;  ///< resident runners into which it was loaded
  std::uint64_t drawn_ = 0;
  condition_watch seen_;
};

}  // namespace quern::env
