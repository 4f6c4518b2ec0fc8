// The evaluator of lane `pytorch` on a core: (task, candidate source) -> verdict, on tensors of the
// CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "env/device/device_quarantine.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/staged_judge.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

struct pytorch_evaluator_options : evaluator_options {
  // Whoever opens judges of any lane has the common ones.
  pytorch_evaluator_options(evaluator_options common = {}) : evaluator_options(std::move(common)) {}

  /// CPU seconds that a candidate may use for one call while it is checked.
  double call_cpu_s = 20;
  /// CPU seconds for its import, and for the constructor of its model.
  double load_cpu_s = 60;
  /// Bytes of content, results and weights that are kept for tasks seen lately.
  std::size_t task_cache_bytes = std::size_t{2} << 30;
  /// Processes that stand ready for the next evaluation (python_zygote::prefork); 0: none.
  int children_ahead = usual_children_ahead;
  /// Given only by tests: when the device is taken out and tried again.
  std::optional<device_quarantine::limits> quarantine;
};

/// Judges candidates of lane `pytorch` on one reserved core. Owns a warm Python and its children;
/// all of them end with it.
class pytorch_evaluator final : public staged_judge {
 public:
  /// Reserves a core and finds a Python with torch. Fails with what is missing and what to do.
  static base::expected<std::unique_ptr<pytorch_evaluator>> open(pytorch_evaluator_options options);

  ~pytorch_evaluator() override;

  void warm_up() override;
  /// kernelbench_exact/1 (kernelbench_exact.hpp).
  base::expected<base::json> evaluate_exactly(const exact_request& request) override;
  /// Builds its extensions.
  void compile_ahead(const evaluation_request& request) override;
  [[nodiscard]] const env::lane& lane() const override { return pytorch_lane; }
  [[nodiscard]] std::optional<device_trouble> trouble() const override;
  void recover() override;
  /// cpu-torch and the instruction level of the processor: "cpu-torch-avx2".
  [[nodiscard]] const std::string& device_class() const override;
  /// Of processor, kernel, Python and its modules, and the processes of this lane.
  [[nodiscard]] const std::string& environment() const override;

  /// Internal (env/lanes/pytorch/pytorch_state.hpp).
  struct state;

 private:
  explicit pytorch_evaluator(std::unique_ptr<state> s);
  std::unique_ptr<staged_evaluation> begin(const evaluation_request& request,
                                           const measure_name& how, verdict& v) override;
  base::expected<baseline_terms> terms_of(baseline_choice baseline) override;
  void renew_reference() override;
  void look_after(verdict& v, runner::cause why) override;

  std::unique_ptr<state> state_;
};

}  // namespace quern::env
