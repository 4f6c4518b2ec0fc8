// What an evaluator of lane `cpp` works with, and one evaluation as it passes through the stages.
// Internal to env/lanes/cpp.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.hpp"
#include "env/build/shared_compilation.hpp"
#include "env/core/core_evaluation.hpp"
#include "env/lanes/cpp/build/cpp_compiler.hpp"
#include "env/lanes/cpp/cpp_evaluator.hpp"
#include "env/lanes/cpp/prepared_task.hpp"
#include "env/lanes/cpp/started_processes.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// Tasks that were prepared, the least recently used going first. Owns the reference service, which
/// it starts when first needed and again when it died.
class prepared_task_cache {
 public:
  /// `restarts`: false keeps a service that died (evaluator_options::restart_reference). `peak`
  /// outlives it.
  prepared_task_cache(std::filesystem::path program, sandbox_mode mode, int core,
                      std::uint64_t input_seed, std::size_t bytes, bool restarts, core_peak& peak)
      : program_(std::move(program)),
        mode_(mode),
        core_(core),
        input_seed_(input_seed),
        limit_(bytes),
        restarts_(restarts),
        peak_(peak) {}

  /// Valid until the next call.
  base::expected<prepared_task*> get(const std::shared_ptr<const task>& subject);
  base::expected<reference_service*> service();
  /// A fresh child for the task's reference. A service that died is started once more.
  base::expected<reference_runner> fresh_reference(const prepared_task& t);
  /// Ends the service; the next use starts another one. Tasks that were prepared stay.
  void renew();
  [[nodiscard]] std::uint64_t input_seed() const { return input_seed_; }

 private:
  std::filesystem::path program_;
  sandbox_mode mode_;
  int core_;
  std::uint64_t input_seed_;
  std::size_t limit_, used_ = 0;
  bool restarts_;
  core_peak& peak_;
  std::unique_ptr<reference_service> service_;
  std::list<std::unique_ptr<prepared_task>> order_;
  std::unordered_map<std::string, std::list<std::unique_ptr<prepared_task>>::iterator> index_;
};

struct cpp_evaluator::state : core_state {
  cpp_evaluator_options options;
  std::unique_ptr<cpp_compiler> cxx;
  cpp_compiler_options compiling;
  /// Compiles beside a measurement, off its core; made when first needed. Null: it could not be.
  std::once_flag ahead_once;
  std::unique_ptr<cpp_compiler> ahead;
  shared_compilation compilations;
  started_processes started;
  std::optional<base::temp_folder> private_cache;
  std::unique_ptr<prepared_task_cache> tasks;

  /// Judges a kernel that is known to be right, with everything made anew: what is wrong here; none
  /// where the verdict is `ok`.
  std::optional<std::string> self_test();
  /// What an evaluation that used this host's parts says about them.
  void look_after(const verdict& v);
};

cpp_compile_request compile_request_for(const task& what, const std::string& source);

/// Starts quern-runner for an artefact, trying again where the host is short of something for a
/// moment.
base::expected<std::unique_ptr<candidate_process>> start_candidate(
    cpp_evaluator::state& with, const std::filesystem::path& artefact, double wall_s);

/// One evaluation: fills a verdict stage by stage and stops at the first finding.
class cpp_evaluation final : public core_evaluation {
 public:
  cpp_evaluation(cpp_evaluator::state& with, const evaluation_request& request,
                 const measure_name& how, verdict& v)
      : core_evaluation(with, with.options, request, how, v), state_(with) {}

  void run() override;

 private:
  bool screen();
  bool compile();
  bool prepare();
  bool verify();
  [[nodiscard]] question_limits call_limits() const;
  base::expected<std::unique_ptr<candidate_process>> start(const std::filesystem::path& artefact);
  /// A new process for the task's plain kernel, which is compiled or found in the cache, not yet
  /// loaded. Errors: invalid_argument (it does not compile); anything else is of this host.
  base::expected<std::unique_ptr<candidate_process>> start_plain();
  /// What the task's speed-up is over, in a process of its own: one of both is set.
  base::status open_baseline(std::unique_ptr<candidate_process>& plain,
                             std::optional<reference_runner>& reference);
  bool measure_once(std::uint64_t round, process_pairs& into) override;

  cpp_evaluator::state& state_;
  prepared_task* task_ = nullptr;
  std::filesystem::path artefact_;
  /// The one that was checked: measured first.
  std::unique_ptr<candidate_process> first_process_;
};

}  // namespace quern::env
