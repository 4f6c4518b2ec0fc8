// The evaluator of lane `pytorch` on a GPU: (task, candidate source) -> verdict, on tensors of the
// device.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "env/judge/core_pace.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/exact_request.hpp"
#include "env/judge/staged_judge.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "env/measure/step_clock.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

struct device_window;

/// With what benchmarks alone ask for.
struct pytorch_device_options : evaluator_options {
  // Whoever opens judges of any lane has the common ones.
  pytorch_device_options(evaluator_options common = {}) : evaluator_options(std::move(common)) {}

  /// What a window of the reference lasts, where it has so many calls; 0: as in a run. Times by
  /// other windows are not compared with those of a run.
  double window_ns = 0;
  /// Hears of each window, of calls or else of deliveries, on the thread that evaluates, outside of
  /// what is timed. Empty: nobody does.
  std::function<void(bool candidate, bool of_calls, const device_window& took)> after_window;
  core_look look = core_pace_ns;  ///< at the core, before windows and between calls
};

/// Judges candidates of lane `pytorch` on GPU `options.gpu`. Owns the evaluator's memory there and
/// two warm Pythons: one whose children have contexts, and one without a device, whose children are
/// asked which extensions a candidate wants. All end with it.
class pytorch_device_evaluator final : public staged_judge {
 public:
  /// Error: what is missing on this machine and what to do.
  static base::expected<std::unique_ptr<pytorch_device_evaluator>> open(
      pytorch_device_options options);

  ~pytorch_device_evaluator() override;

  void warm_up() override;
  /// kernelbench_exact/1 (kernelbench_exact.hpp), with tensors of the GPU.
  base::expected<base::json> evaluate_exactly(const exact_request& request) override;
  /// Builds its extensions and its Triton kernels.
  void compile_ahead(const evaluation_request& request) override;
  /// Learns the limits of its task, and what calls of its reference take.
  bool prepare_ahead(const evaluation_request& request) override;
  /// Waits until builds are warm (candidate_builds): for benchmarks whose clock starts then.
  void wait_until_warm();
  [[nodiscard]] const env::lane& lane() const override { return pytorch_lane; }
  [[nodiscard]] std::optional<device_trouble> trouble() const override;
  void recover() override;
  /// Of the GPU, with "-torch": times of modules are not those of lane `cuda`.
  [[nodiscard]] const std::string& device_class() const override;
  [[nodiscard]] const std::string& environment() const override;
  [[nodiscard]] double waited_for_device_s() const override;
  /// Evaluations whose candidate's process stood ready when it was asked for, of all that asked.
  [[nodiscard]] double ready_share() const;
  /// Where the seconds of stages() went.
  [[nodiscard]] const step_seconds& steps() const;

  /// Internal (pytorch_device_state.hpp).
  struct state;

 private:
  explicit pytorch_device_evaluator(std::unique_ptr<state> s);
  [[nodiscard]] std::string key_suffix(const evaluation_request& request) const override;
  std::unique_ptr<staged_evaluation> begin(const evaluation_request& request,
                                           const measure_name& how, verdict& v) override;
  base::expected<baseline_terms> terms_of(baseline_choice baseline) override;
  void renew_reference() override;
  void look_after(verdict& v, runner::cause why) override;

  std::unique_ptr<state> state_;
};

/// The checks of `quern tasks check` on GPU `options.gpu`. Error: as open()'s.
base::expected<std::unique_ptr<task_checker>> open_device_module_checker(
    const evaluator_options& options);

}  // namespace quern::env
