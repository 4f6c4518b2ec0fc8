// The evaluator of lane `cpp`: (task, candidate source) -> verdict, through screen, compiler,
// checks, probe and clock.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// Judges candidates of lane `cpp` on one reserved core. Owns a reference process and the children
/// of the candidate it is judging; all of them end with it.
class cpp_evaluator final : public candidate_judge {
 public:
  /// Reserves a core, probes the sandbox, finds the programs. Fails with what is missing and what
  /// to do. Starts the reference process only when a task first needs it.
  static base::expected<std::unique_ptr<cpp_evaluator>> open(evaluator_options options);

  ~cpp_evaluator() override;

  verdict evaluate(const evaluation_request& request) override;
  void warm_up() override;
  void compile_ahead(const evaluation_request& request) override;
  [[nodiscard]] env::lane lane() const override { return lane::cpp; }
  /// In quarantine candidates are still judged if asked for: it is for hosts to send them
  /// elsewhere.
  [[nodiscard]] std::optional<device_trouble> trouble() const override;
  void recover() override;

  /// Of the closed list `cpp-sse2`, `cpp-avx2`, `cpp-avx512`, `cpp-neon`.
  [[nodiscard]] const std::string& device_class() const override;

  /// Of CPU, kernel, compiler and its flags, prelude, LibTorch.
  [[nodiscard]] const std::string& environment() const override;
  [[nodiscard]] stage_seconds stages() const override;

  /// The core that was reserved.
  [[nodiscard]] int core() const;

  /// Internal (env/lanes/cpp/cpp_state.hpp).
  struct state;

 private:
  explicit cpp_evaluator(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
