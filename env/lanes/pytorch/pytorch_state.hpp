// What an evaluator of lane `pytorch` works with, and one evaluation as it passes through the
// stages. Internal to env/lanes/pytorch.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>

#include "env/core/core_care.hpp"
#include "env/core/core_peak.hpp"
#include "env/core/timing.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/judgement.hpp"
#include "env/judge/staged_evaluation.hpp"
#include "env/lanes/pytorch/build/extension_builder.hpp"
#include "env/lanes/pytorch/candidate_builds.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/pytorch_evaluator.hpp"

namespace quern::env {

/// Tasks that were prepared, the least recently used going first, and the warm Python behind them,
/// which is started again when it died.
class module_shelf {
 public:
  module_shelf(python_zygote zygote, sandbox_mode mode, std::uint64_t input_seed, std::size_t bytes,
               bool restarts)
      : mode_(mode),
        input_seed_(input_seed),
        limit_(bytes),
        restarts_(restarts),
        zygote_(std::move(zygote)) {}

  base::expected<python_zygote*> zygote();
  /// Valid until the next call.
  base::expected<module_task*> get(const std::shared_ptr<const task>& subject);
  /// Ends the warm Python and forgets the tasks, whose processes end with it.
  void renew();
  [[nodiscard]] core_peak& peak() { return peak_; }

 private:
  sandbox_mode mode_;
  std::uint64_t input_seed_;
  std::size_t limit_, used_ = 0;
  bool restarts_;
  std::optional<python_zygote> zygote_;
  std::list<std::unique_ptr<module_task>> order_;  // the last used first
  core_peak peak_;
};

struct pytorch_evaluator::state {
  pytorch_evaluator_options options;
  core_choice core;
  std::string device_class;
  std::string environment;
  std::string versions;
  null_distribution null;
  std::unique_ptr<spawner> children;
  std::unique_ptr<candidate_builds> builds;
  std::unique_ptr<module_shelf> tasks;
  stage_seconds seconds;
  core_care care;
  std::uint64_t self_tests = 0;

  /// Judges a module that is known to be right, with everything made anew: what is wrong here; none
  /// where the verdict is `ok`.
  std::optional<std::string> self_test();
};

/// One evaluation: fills a verdict stage by stage and stops at the first finding.
class pytorch_evaluation final : public staged_evaluation {
 public:
  pytorch_evaluation(pytorch_evaluator::state& with, const evaluation_request& request,
                     const measure_name& how, verdict& v)
      : staged_evaluation(request, how, v), with_(with) {}

  void run() override;
  [[nodiscard]] interruption interrupted() const override;

 private:
  bool prepare();
  /// What the text shows that no host of this device class can run; else its extensions.
  bool build();
  /// As fail_host, of something that was asked of the reference.
  bool fail_reference(const base::error& e);
  /// Why a module could not be loaded: what the compiler said of its extension, if one was refused.
  [[nodiscard]] std::string what_failed(const std::string& told) const;
  /// A process in which the candidate is loaded and its model made. Null: the verdict stands.
  std::unique_ptr<module_process> start();
  bool verify();
  void time();
  [[nodiscard]] estimate_limits measuring_limits() const;
  [[nodiscard]] question_limits load_limits() const;
  [[nodiscard]] question_limits call_limits() const;
  bool measure_once(std::unique_ptr<module_process> process, std::uint64_t round,
                    process_pairs& into);

  pytorch_evaluator::state& with_;
  module_task* task_ = nullptr;
  std::optional<text_file> file_;
  candidate_extensions built_;
  std::unique_ptr<module_process> first_process_;
  double call_ns_ = 0;
  bool lost_reference_ = false;
};

}  // namespace quern::env
