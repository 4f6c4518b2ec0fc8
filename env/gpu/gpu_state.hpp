// What an evaluator of lane `cuda` works with. Internal to env/gpu.
#pragma once

#include <array>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "env/gpu/build.hpp"
#include "env/gpu/candidate.hpp"
#include "env/gpu/checks.hpp"
#include "env/gpu/gpu_evaluator.hpp"
#include "env/gpu/reference_process.hpp"
#include "env/gpu/runner_pool.hpp"
#include "env/gpu/timing.hpp"
#include "env/judge/ahead.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/verdict_cache.hpp"
#include "env/measure/null_distribution.hpp"

namespace quern::env {

/// Runners of each side that stay alive: placement differs between processes, not within one.
inline constexpr std::size_t resident_runners = 3;

/// What does not depend on the candidate.
struct gpu_task {
  std::vector<device_instance> hidden;
  device_instance timed;
  double floor_ns = 0;
};

/// The device and all that lives on it.
class gpu_stand {
 public:
  gpu_stand(spawner& children, const evaluator_options& options, gpu_access access,
            std::unique_ptr<device_desk> desk, std::filesystem::path cuda_library,
            std::uint64_t secret);

  [[nodiscard]] device_desk& desk() { return *desk_; }
  [[nodiscard]] lent_memory& memory() { return memory_; }

  /// A resident runner for the device-only form, started where it is missing: the candidate's are 0
  /// … resident_runners - 1, those behind them run plain baselines. Its seat has the same number.
  base::expected<gpu_runner_process*> resident(std::size_t i);
  /// Ends a resident that is of no more use.
  void retire(std::size_t i) { residents_[i].reset(); }
  /// A process of its own for a candidate in host-entry form.
  base::expected<std::unique_ptr<gpu_runner_process>> fresh() { return pool_.take(); }

  /// A reference runner with the task's script.
  base::expected<reference_seat> reference(std::size_t i, const task& what);
  void retire_reference(std::size_t i) { references_[i] = {}; }
  base::expected<const gpu_task*> prepare(const std::shared_ptr<const task>& subject);

  /// Notes what is free now that no candidate of its own process lives.
  void note_free_memory();
  /// Whether the device has its memory back; waits for it a little. Text: what is missing.
  std::optional<std::string> memory_missing();

 private:
  struct reference_place {
    std::unique_ptr<gpu_reference_process> process;
    std::string script_of;  ///< id of the task
  };
  double floor_of(const task_instance& at);

  spawner& children_;
  const evaluator_options& options_;
  gpu_access access_;
  std::unique_ptr<device_desk> desk_;
  std::filesystem::path cuda_library_;
  lent_memory memory_;
  gpu_runner_pool pool_;
  std::array<std::unique_ptr<gpu_runner_process>, 2 * resident_runners> residents_;
  std::array<reference_place, resident_runners> references_;
  std::unordered_map<std::string, std::unique_ptr<gpu_task>> tasks_;
  double bandwidth_ = 0;
  std::uint64_t free_before_ = 0;
};

struct gpu_evaluator::state {
  evaluator_options options;
  std::unique_ptr<spawner> children;
  std::unique_ptr<cuda_compiler> nvcc;
  shared_compilation compilations;
  std::string architecture;
  std::string device_class;
  std::string environment;
  null_distribution null;
  std::uint64_t secret = 0;
  std::unique_ptr<gpu_stand> stand;
  verdict_cache cache;
  stage_seconds seconds;
  device_seconds device;
  /// Why the device may not be used any more; empty: it may.
  std::string quarantined;
};

/// One evaluation: fills a verdict stage by stage and stops at the first finding.
class gpu_evaluation {
 public:
  gpu_evaluation(gpu_evaluator::state& with, const evaluation_request& request, verdict& v)
      : with_(with), request_(request), verdict_(v) {}

  std::vector<process_pairs> runs;
  std::optional<std::int64_t> claim_e2;

  void run();

 private:
  bool screen();
  bool build();
  bool verify();
  void time();
  bool measure(std::uint64_t round, std::vector<process_pairs>& into);
  bool take_references(timed_side& side);
  /// The task's plain kernel in runners of its own, loaded and told what a call is.
  bool take_plain(timed_side& side, std::vector<loaded_candidate>& loaded);
  bool take_candidates(timed_side& side, std::vector<loaded_candidate>& loaded, bool anew);
  [[nodiscard]] estimate_limits measuring_limits() const;
  [[nodiscard]] finding judge_clocks(const gpu_timing_result& result) const;
  bool settle(const finding& f);
  bool fail_host(const base::error& e);
  /// The runner in which the candidate is checked, with its code loaded.
  bool take_runner();
  bool check(const device_instance& of);
  void leave_device();
  std::uint64_t secret(std::uint64_t purpose);

  gpu_evaluator::state& with_;
  const evaluation_request& request_;
  verdict& verdict_;
  std::optional<built_candidate> built_, plain_;
  const gpu_task* task_ = nullptr;
  std::unique_ptr<gpu_runner_process> own_;  ///< host-entry form
  std::optional<loaded_candidate> first_;
  std::uint64_t drawn_ = 0;
};

}  // namespace quern::env
