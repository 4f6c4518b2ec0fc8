// What an evaluator of lane `cuda` works with. Internal to env/lanes/cuda.
#pragma once

#include <optional>
#include <string>

#include "env/build/shared_compilation.hpp"
#include "env/gpu/compiled_process.hpp"
#include "env/gpu/device_care.hpp"
#include "env/gpu/device_checks.hpp"
#include "env/gpu/device_manager.hpp"
#include "env/gpu/device_timing.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/staged_evaluation.hpp"
#include "env/lanes/cuda/build.hpp"
#include "env/lanes/cuda/candidate.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"
#include "env/measure/null_distribution.hpp"

namespace quern::env {

struct cuda_evaluator::state final : public device_owner {
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
  gpu_access access;
  gpu_parts parts;  ///< before the manager, whose threads add to it
  std::unique_ptr<device_manager> manager;
  stage_seconds seconds;
  device_seconds device;
  std::optional<device_care> care;

  device_context& context() override { return manager->context(); }
  void take_down() override;
  void set_up(std::unique_ptr<device_context> context) override;
  std::optional<std::string> try_out() override;
};

/// One evaluation: fills a verdict stage by stage and stops at the first finding.
class cuda_evaluation final : public staged_evaluation {
 public:
  cuda_evaluation(cuda_evaluator::state& with, const evaluation_request& request,
                  const measure_name& how, verdict& v)
      : staged_evaluation(request, how, v),
        state_(with),
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

  cuda_evaluator::state& state_;
  suite_policy policy_;
  std::optional<built_candidate> built_, plain_;
  const device_task* task_ = nullptr;
  std::unique_ptr<gpu_runner_process> own_;  ///< host-entry form
  std::optional<process_memory> own_memory_;
  std::optional<loaded_candidate> first_;
  std::size_t saw_it_ = 0;  ///< resident runners into which it was loaded
  std::uint64_t drawn_ = 0;
  condition_watch seen_;
};

}  // namespace quern::env
