// The evaluator of lane `cuda`: (task, candidate source) -> verdict on one device, through screen,
// launch plan, compiler, checks and clock.
#pragma once

#include <memory>

#include "env/gpu/parts.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/staged_judge.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"

namespace quern::env {

/// Seconds of one device, by what it did; part of what stages() tells.
struct device_seconds {
  double leased = 0;     ///< somebody's checks or clock
  double measuring = 0;  ///< between the first and the last window of measurements
};

/// Judges on one GPU, which it owns: one device lease at a time among the evaluators of this host.
class cuda_evaluator final : public staged_judge {
 public:
  /// options.gpu: which device. Opens the device, finds compilers and programs; runners and
  /// references start when the first task needs them. Errors say what is missing and what to do.
  static base::expected<std::unique_ptr<cuda_evaluator>> open(evaluator_options options);
  ~cuda_evaluator() override;

  void warm_up() override;
  void compile_ahead(const evaluation_request& request) override;
  [[nodiscard]] const env::lane& lane() const override { return cuda_lane; }
  [[nodiscard]] double waited_for_device_s() const override;
  /// A GPU is done with one before a compiler is.
  [[nodiscard]] std::int64_t candidates_at_a_time() const override { return 24; }
  [[nodiscard]] const std::string& device_class() const override;
  [[nodiscard]] const std::string& environment() const override;
  /// In quarantine: env/device/device_quarantine.hpp says when. A self-test, with everything on
  /// the device made anew, ends it.
  [[nodiscard]] std::optional<device_trouble> trouble() const override;
  void recover() override;
  /// From the next evaluation on (evaluator_options::time_budget_s, precision).
  void measure_for(double budget_s, double precision);
  [[nodiscard]] device_seconds device_time() const;
  /// Where the time of evaluations goes, by part.
  [[nodiscard]] const gpu_parts& parts() const;

  struct state;

 private:
  explicit cuda_evaluator(std::unique_ptr<state> s);
  std::unique_ptr<staged_evaluation> begin(const evaluation_request& request,
                                           const measure_name& how, verdict& v) override;
  base::expected<baseline_terms> terms_of(baseline_choice baseline) override;
  [[nodiscard]] std::string key_suffix(const evaluation_request& request) const override;
  void look_after(verdict& v, runner::cause why) override;

  std::unique_ptr<state> state_;
};

}  // namespace quern::env
