// What an evaluator of lane `pytorch` works with, and one evaluation as it passes through the
// stages. Internal to env/lanes/pytorch.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>

#include "env/core/core_evaluation.hpp"
#include "env/lanes/pytorch/build/extension_builder.hpp"
#include "env/lanes/pytorch/candidate_builds.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/pytorch_evaluator.hpp"

namespace quern::env {

/// Tasks that were prepared, the least recently used going first, and the warm Python behind them,
/// which is started again when it died.
class module_task_cache {
 public:
  /// `peak` outlives it. Of `options` nothing is kept.
  module_task_cache(python_zygote zygote, sandbox_mode mode,
                    const pytorch_evaluator_options& options, core_peak& peak)
      : mode_(mode),
        input_seed_(*options.input_seed),
        limit_(options.task_cache_bytes),
        restarts_(options.restart_reference),
        children_ahead_(options.children_ahead),
        peak_(peak),
        zygote_(std::move(zygote)) {
    prefork();
  }

  base::expected<python_zygote*> zygote();
  /// Valid until the next call.
  base::expected<module_task*> get(const std::shared_ptr<const task>& subject);
  /// Whether a child of the warm Python can be had: where one is lost again and again, it is not
  /// for want of a host.
  bool can_fork();
  /// Has children stand ready again in the place of those that were taken. Does not wait. To be
  /// called where nothing is timed until the next process is asked for.
  void prefork();
  /// Ends the warm Python and forgets the tasks, whose processes end with it.
  void renew();

 private:
  sandbox_mode mode_;
  std::uint64_t input_seed_;
  std::size_t limit_, used_ = 0;
  bool restarts_;
  int children_ahead_;
  core_peak& peak_;
  std::optional<python_zygote> zygote_;
  std::list<std::unique_ptr<module_task>> order_;  // the last used first
};

struct pytorch_evaluator::state : core_state {
  pytorch_evaluator_options options;
  std::string versions;
  std::unique_ptr<candidate_builds> builds;
  std::unique_ptr<module_task_cache> tasks;

  /// Judges a module that is known to be right, with everything made anew: what is wrong here; none
  /// where the verdict is `ok`.
  std::optional<std::string> self_test();
};

/// One evaluation: fills a verdict stage by stage and stops at the first finding.
class pytorch_evaluation final : public core_evaluation {
 public:
  pytorch_evaluation(pytorch_evaluator::state& with, const evaluation_request& request,
                     const measure_name& how, verdict& v)
      : core_evaluation(with, with.options, request, how, v), state_(with) {}

  void run() override;

 private:
  bool prepare();
  /// As fail_reference; `unsupported` where the reference needs more than a core has.
  bool fail_task(const base::error& e);
  /// Its extensions, and what else of it this device class cannot run.
  bool build();
  /// A candidate whose text has what no host of this device class can run, and that fails by its
  /// use, is `unsupported`. One that fails otherwise, or not at all, is judged: a word that is used
  /// nowhere is no way out of a verdict.
  [[nodiscard]] finding qualified(const finding& f) const override;
  /// A process in which the candidate is loaded and its model made. Null: the verdict stands.
  std::unique_ptr<module_process> start();
  /// Where a check is wrong and the constructor had made weights of the reference's names
  /// otherwise, once more with these: KernelBench leaves them so.
  bool verify();
  [[nodiscard]] question_limits load_limits() const;
  [[nodiscard]] question_limits call_limits() const;
  bool measure_once(std::uint64_t round, process_pairs& into) override;

  pytorch_evaluator::state& state_;
  module_task* task_ = nullptr;
  std::optional<text_file> file_;
  candidate_extensions built_;
  std::string obstacle_;  ///< what its text has that cannot run here; empty: nothing
  /// The one that was checked: measured first.
  std::unique_ptr<module_process> first_process_;
  named_weights named_ = named_weights::of_reference;
  bool weights_changed_ = false;  ///< made_model::weights_changed of the last process
};

}  // namespace quern::env
