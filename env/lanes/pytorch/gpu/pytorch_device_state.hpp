// What an evaluator of lane `pytorch` on a GPU works with, and one evaluation as it passes through
// the stages. Internal to env/lanes/pytorch/gpu.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "env/device/condition_watch.hpp"
#include "env/gpu/device_care.hpp"
#include "env/gpu/process_memory.hpp"
#include "env/gpu/quiet.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/device_turn.hpp"
#include "env/judge/recently_used.hpp"
#include "env/judge/staged_evaluation.hpp"
#include "env/lanes/pytorch/candidate_builds.hpp"
#include "env/lanes/pytorch/candidate_kernels.hpp"
#include "env/lanes/pytorch/gpu/contexts_ahead.hpp"
#include "env/lanes/pytorch/gpu/device_module_calls.hpp"
#include "env/lanes/pytorch/gpu/device_module_timing.hpp"
#include "env/lanes/pytorch/gpu/module_baseline.hpp"
#include "env/lanes/pytorch/gpu/module_window_times.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_evaluator.hpp"
#include "env/lanes/pytorch/task_sheets.hpp"
#include "env/measure/null_distribution.hpp"

namespace quern::env {

/// Of a candidate whose extensions are learnt, and of a call of its model.
inline constexpr question_limits module_recording = device_limits(60);

/// A step of what an evaluation holds the device for.
inline constexpr std::string_view memory_step = "the device's memory in use, by the driver";
/// What the reference may take of the device's memory while a candidate's is looked at.
inline constexpr std::uint64_t moved_by_reference = std::uint64_t{4} << 30;

/// Where constructors draw their numbers (module_making::draws_on_core).
enum class drawing { on_device, on_core };

/// What lives on the device, and ends with this object.
class module_device_manager {
 public:
  /// `core`: of candidates and references, which take turns: what neighbours do to it they do to
  /// both. `sheets` and `steps` outlive it.
  module_device_manager(std::unique_ptr<device_context> context, sandbox_mode mode, python_gpu gpu,
                        const pytorch_device_options& options, int core, task_sheets& sheets,
                        step_seconds& steps)
      : context_(std::move(context)),
        mode_(mode),
        gpu_(std::move(gpu)),
        secret_(*options.input_seed),
        window_ns_(options.window_ns),
        core_(core),
        sheets_(sheets),
        steps_(steps),
        memory_(*context_, secret_),
        quiet_(context_->facts().bus_id) {}

  [[nodiscard]] device_context& context() { return *context_; }
  [[nodiscard]] module_memory& memory() { return memory_; }
  [[nodiscard]] device_quiet& quiet() { return quiet_; }
  base::expected<python_zygote*> zygote();
  /// The task with the processes of its reference, which have the memory of its calls. Of the last
  /// few what was learnt about them is kept. A task whose numbers were drawn on a core once keeps
  /// to that. Valid until the next call.
  base::expected<device_module_task*> get(const std::shared_ptr<const task>& subject,
                                          drawing where = drawing::on_device);
  /// The process in which the reference of the task that get() gave last is called as this baseline
  /// (baseline_of()).
  base::expected<device_module*> baseline(baseline_choice which);
  /// Whether get() finds what was learnt about it.
  [[nodiscard]] bool is_known(const std::string& id) const;
  /// Tasks that were prepared ahead and not used since. One more than there is room for would push
  /// one of them out.
  [[nodiscard]] bool has_room_ahead() const;
  void note_ahead(const std::string& id) { ahead_of_use_.insert(id); }
  void note_use(const std::string& id) { ahead_of_use_.erase(id); }
  /// Has processes stand ready in the place of those that were taken (contexts_ahead).
  void prefork();
  /// Forgets tasks and ends the processes.
  void renew();

 private:
  base::expected<device_module_task*> change_to(const std::string& id,
                                                const std::shared_ptr<const task>& subject,
                                                drawing where);

  std::unique_ptr<device_context> context_;
  sandbox_mode mode_;
  python_gpu gpu_;
  std::uint64_t secret_;
  double window_ns_;
  int core_;
  task_sheets& sheets_;
  step_seconds& steps_;
  module_memory memory_;
  device_quiet quiet_;
  std::optional<python_zygote> zygote_;
  std::optional<contexts_ahead> ahead_;
  std::optional<recently_used<std::unique_ptr<device_module_task>>> tasks_;
  std::set<std::string> ahead_of_use_;
  device_module_task* current_ = nullptr;  ///< of tasks_, the one that has the processes
};

struct pytorch_device_evaluator::state final : public device_owner {
  pytorch_device_options options;
  sandbox_mode mode = sandbox_mode::required;
  std::unique_ptr<spawner> children;
  std::string versions;
  std::string device_class;
  std::string environment;
  null_distribution null;
  stage_seconds seconds;
  step_seconds steps;
  core_choice core;
  python_gpu gpu;
  std::unique_ptr<candidate_builds> builds;
  std::unique_ptr<recording_python> recorder;
  std::unique_ptr<candidate_kernels> kernels;
  std::unique_ptr<task_sheets> sheets;
  std::unique_ptr<module_device_manager> manager;
  std::optional<device_care> care;
  std::int64_t asked = 0, stood_ready = 0;  ///< of candidates' processes
  double waited_s = 0;                      ///< for turns on the device

  device_context& context() override { return manager->context(); }
  void take_down() override { manager.reset(); }
  void set_up(std::unique_ptr<device_context> context) override {
    manager = std::make_unique<module_device_manager>(std::move(context), mode, gpu, options,
                                                      core.core(), *sheets, steps);
  }
  std::optional<std::string> try_out() override;
  /// candidate_judge::prepare_ahead()
  bool prepare_ahead(const evaluation_request& request);
};

/// The answer of kernelbench_exact/1 (kernelbench_exact.hpp): both modules in one process, which
/// has the device for itself. Errors: invalid_argument: the terms, or a task of another lane; else
/// of this host.
base::expected<base::json> evaluate_exactly_on_device(pytorch_device_evaluator::state& with,
                                                      const exact_request& request);

/// What an evaluator of this GPU works with. `builds`: candidates' builds are made ready beside the
/// rest. Errors: what is missing on this machine and what to do.
base::expected<std::unique_ptr<pytorch_device_evaluator::state>> open_device_state(
    pytorch_device_options options, bool builds);

/// One evaluation: fills a verdict stage by stage and stops at the first finding.
class pytorch_device_evaluation final : public staged_evaluation {
 public:
  pytorch_device_evaluation(pytorch_device_evaluator::state& with,
                            const evaluation_request& request, const measure_name& how, verdict& v)
      : staged_evaluation(request, how, v),
        state_(with),
        policy_(request.policy.value_or(with.options.policy)) {}

  void run() override;
  /// The task alone, in place of run(). False: the verdict says why not.
  bool prepare_task();
  [[nodiscard]] interruption interrupted() const override;

 private:
  /// The device for this evaluation alone. False: it cannot be had.
  bool take_device();
  /// The task with its processes; with the device in hand.
  bool prepare(drawing where = drawing::on_device);
  bool fail_task(const base::error& e);
  [[nodiscard]] finding qualified(const finding& f) const override;
  /// Looks at what the candidate's process takes of the device's memory, from here until it is
  /// asked to end. The driver answers late while it makes contexts for others, so looks are few.
  /// `others`: process_memory::question. `step`: is over then.
  void begin_look(step_clock& step, std::uint64_t others = 0);
  void end_look(step_clock& step);
  /// Whether its process has ended, and given back its memory. It is asked for nothing more.
  bool end_candidate();
  /// Whether the candidate keeps to its share of the device's memory; false: the verdict stands.
  bool within_memory();
  /// As settle(). What was not the candidate's was the reference's.
  bool settle_call(const finding& f);
  /// Gives the device back while compilers run.
  bool build();
  bool build_extensions();
  bool build_kernels();
  /// A process in which the candidate is loaded and its model made; false: the verdict stands.
  bool start();
  /// The same with the task as it stands, wherever it draws; sets made_.
  bool make_model();
  /// The same in steps. `profiled`: a process for evidence. Error: of this host.
  base::status take_process(bool profiled);
  answered<void> load_candidate();
  bool verify();
  /// The limits of a case of the task; `can_judge`: as find_limit() says. The candidate's process
  /// is gone where the reference could not do it beside that. False: the verdict stands.
  bool limit_case(std::size_t place, bool& can_judge);
  /// The limit of each case, as wide as it gets; a case keeps its narrow one where the task has no
  /// other. The candidate may have ended then. False: the verdict stands.
  bool find_all_limits();
  /// A check was wrong, which may be by the candidate's weights. They are tried once more as its
  /// constructor made them, if it made some of the reference's names otherwise. If it has some of
  /// its own, both sides are tried with numbers of a core: one draw on a device is not two of half
  /// the size. KernelBench has both. False: the verdict stands, the first one.
  bool verify_otherwise();
  /// check() on a case of the task, in stage `verify`.
  bool check_case(device_module_calls& calls, std::size_t place);
  /// Whether a result is right by the limit of a case that needs no f64, or by its limit where it
  /// lies beyond. Empty: the case has its limit already, has no narrow one, or was left out; false:
  /// the verdict stands. `stage`: gets the time of the call, and of f64. `looks`: as check() has
  /// it.
  std::optional<bool> check_narrowly(device_module_calls& calls, std::size_t place,
                                     const std::string& name, double& stage, bool looks);
  /// A call on this content beside the reference's. `looks`: what the call itself takes of the
  /// device's memory is looked at, and from then on what is taken until the look ends.
  bool check(device_module_calls& calls, const module_case& one, const std::string& name,
             bool looks = false);
  /// The same; the finding is for whoever asks. Empty: the verdict stands.
  std::optional<finding> called_on(device_module_calls& calls, const module_case& one,
                                   const std::string& name, bool looks);
  /// What was right before the clock ran must be right after it.
  bool check_again(std::uint64_t round);
  /// Of its process beside the reference. `seed`: of what is drawn.
  device_module_calls calls_by(std::uint64_t seed);
  /// The process of the baseline, where that is not eager; false: the verdict stands.
  bool take_baseline();
  bool measure_once(const measure_protocol& protocol, std::uint64_t round, process_pairs& into);
  void time();
  [[nodiscard]] estimate_limits measuring_limits() const;
  /// Whether this evaluation ends with evidence: by its seed, or because the policy needs it.
  [[nodiscard]] bool wants_evidence() const;
  /// Behind everything that counts. Nothing that goes wrong here changes the verdict; what the
  /// policy does not allow does.
  void add_evidence();
  base::expected<evidence_report> collect_evidence();

  pytorch_device_evaluator::state& state_;
  suite_policy policy_;
  std::optional<device_turn> turn_;
  device_module_task* task_ = nullptr;
  std::optional<base::temp_folder> index_;  ///< of its extensions
  candidate_extensions built_;
  std::optional<built_kernels> kernels_;
  std::unique_ptr<device_module> candidate_;
  /// Of the task; null: eager, by its reference.
  device_module* baseline_ = nullptr;
  /// judgement_rules::time_error_ns, of all measurements.
  double time_error_ns_ = 0;
  hidden_measurements hidden_;
  std::uint64_t begun_again_ = 0;                    ///< measurements, since limits were missing
  std::optional<process_memory> own_memory_;         ///< of the candidate's process
  std::optional<process_memory::question> looking_;  ///< between begin_look() and end_look()
  /// Its process was ended to find limits, by which it is right (device_module_calls::compare()).
  bool begins_again_ = false;
  condition_watch seen_;
  std::string obstacle_;  ///< why the candidate may not run here, by its text
  bool lost_reference_ = false;
  named_weights named_ = named_weights::of_reference;
  made_model made_;        ///< of its process
  bool is_timed_ = false;  ///< from the first window on its task stays as it is
};

}  // namespace quern::env
