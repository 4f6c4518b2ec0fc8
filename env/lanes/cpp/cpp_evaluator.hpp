// The evaluator of lane `cpp`: (task, candidate source) -> verdict, through screen, compiler,
// checks, probe and clock.
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
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

struct cpp_evaluator_options : evaluator_options {
  // Whoever opens judges of any lane has the common ones.
  cpp_evaluator_options(evaluator_options common = {}) : evaluator_options(std::move(common)) {}

  /// CPU seconds that a candidate may use for one call while it is checked (hidden sizes).
  double call_cpu_s = 0.5;
  /// Bytes of hidden inputs and expected outputs that are kept for tasks seen lately.
  std::size_t expectation_cache_bytes = 512u << 20;
  /// Given only by tests: when the device is taken out and tried again.
  std::optional<device_quarantine::limits> quarantine;
};

/// Judges candidates of lane `cpp` on one reserved core. Owns a reference process and the children
/// of the candidate it is judging; all of them end with it.
class cpp_evaluator final : public staged_judge {
 public:
  /// Reserves a core, probes the sandbox, finds the programs. Fails with what is missing and what
  /// to do. Starts the reference process only when a task first needs it.
  static base::expected<std::unique_ptr<cpp_evaluator>> open(cpp_evaluator_options options);

  ~cpp_evaluator() override;

  void warm_up() override;
  void compile_ahead(const evaluation_request& request) override;
  [[nodiscard]] const env::lane& lane() const override { return cpp_lane; }
  /// In quarantine candidates are still judged if asked for: it is for hosts to send them
  /// elsewhere.
  [[nodiscard]] std::optional<device_trouble> trouble() const override;
  void recover() override;

  /// Of the closed list `cpp-sse2`, `cpp-avx2`, `cpp-avx512`, `cpp-neon`.
  [[nodiscard]] const std::string& device_class() const override;

  /// Of CPU, kernel, compiler and its flags, prelude, LibTorch.
  [[nodiscard]] const std::string& environment() const override;

  /// The core that was reserved.
  [[nodiscard]] int core() const;

  /// Internal (env/lanes/cpp/cpp_state.hpp).
  struct state;

 private:
  explicit cpp_evaluator(std::unique_ptr<state> s);
  std::unique_ptr<staged_evaluation> begin(const evaluation_request& request,
                                           const measure_name& how, verdict& v) override;
  base::expected<baseline_terms> terms_of(baseline_choice baseline) override;
  void renew_reference() override;
  void look_after(verdict& v, runner::cause why) override;

  std::unique_ptr<state> state_;
};

}  // namespace quern::env
