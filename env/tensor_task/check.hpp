// `quern tasks check` of tasks with tensors: refuses what would teach the wrong thing. The
// decisions only; running references is behind reference_oracle, so that this needs no LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/task/task.hpp"
#include "env/task/task_check.hpp"
#include "env/tensor_task/fill.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// What the machine can do at best; for the roofline floor.
struct machine_peak {
  double bytes_per_s = 200e9;  ///< at cache bandwidth: a floor that no honest kernel beats
  double flops_per_s = 150e9;  ///< one core, fused multiply-add
};

/// One output of a reference on one content, as an oracle that makes content itself found it.
struct output_judgement {
  double worst_error = 0;  ///< see task_report::worst_error; within 1 % above it
  bool repeats = true;     ///< the same content gave the same bits again
  bool finite = true;
};

/// Runs a task's reference. Implemented over a sandboxed reference runner; used from one thread.
class reference_oracle {
 public:
  virtual ~reference_oracle() = default;

  /// Outputs of the reference on these inputs, in file order, each of its layout's size. With
  /// `in_f64`, floating inputs are widened first (the bytes passed stay f32) and floating outputs
  /// come back as f64.
  virtual base::expected<std::vector<tensor_bytes>> run(const task& what, const task_instance& at,
                                                        std::span<const tensor_bytes> inputs,
                                                        bool in_f64) = 0;

  /// Whether check_task_quickly() has references compiled and nothing run: their sizes are for a
  /// device that this machine may lack.
  [[nodiscard]] virtual bool only_compiles() const { return false; }

  /// Compiles the reference and runs nothing; asked only where only_compiles(). Errors:
  /// invalid_argument: what the compiler said; unavailable: nothing was compiled.
  virtual base::status compile(const task& what);

  /// Compiles the plain kernel, calls it once on these inputs and compares its outputs with the
  /// reference's. Errors: invalid_argument: what is wrong with it; unavailable: it was not tried.
  virtual base::status try_plain(const task& what, const task_instance& at,
                                 std::span<const tensor_bytes> inputs);

  /// Median time of one call of the task's *baseline* (reference or plain) in ns, on one core or
  /// device.
  virtual base::expected<std::int64_t> time_baseline(const task& what, const task_instance& at,
                                                     std::span<const tensor_bytes> inputs) = 0;

  /// Whether content is made and compared where the reference runs, since the host would take
  /// minutes for tensors of a device's size. Then judge_case() takes the place of run() but for
  /// small sizes, and time_baseline() makes inputs of its own. A failure then refuses the task but
  /// does not end its check, so that one check tells everything.
  [[nodiscard]] virtual bool makes_content() const { return false; }

  /// Only with makes_content(): every output at these sizes on content of `round` (0: the timed
  /// distributions, r + 1: hidden round r), compared with the reference in f64.
  virtual base::expected<std::vector<output_judgement>> judge_case(const task& what,
                                                                   const task_instance& at,
                                                                   int round, std::uint64_t seed);

  /// What the machine of the oracle can do at best for this instance.
  virtual machine_peak peak(const task_instance&) { return {}; }
};

/// Words that a reference text must not contain (random, in-place, file and down-casting
/// operators), with the reason.
std::vector<task_finding> check_reference_text(const task& what);

/// Least time of one call at these sizes on a machine with this peak, ns: the larger of its bytes
/// at full bandwidth and a quarter of its arithmetic at full speed, since fast algorithms do with
/// less than the obvious number of operations.
std::int64_t roofline_floor_ns(const task_instance& at, const machine_peak& peak);

/// Whether a baseline of `baseline_ns` a call, as this machine computes it, is long enough for a
/// lane that wants `least_ns`; none: it is. Advice below that, a refusal below half of it.
std::optional<task_finding> check_baseline_time(std::int64_t baseline_ns, std::int64_t least_ns);

/// All rules: text; the same result twice; finite results (but for `special` inputs); tolerance
/// against f64 at every size and distribution; an output that varies and every input mattering
/// (left out when the task says `degenerate: true`); cost between the outputs' bytes and all bytes,
/// its floor below the baseline; baseline long enough. A task whose text breaks a rule is not run.
/// An error is an oracle that could not run.
base::expected<task_report> check_task(const task& what, reference_oracle& oracle,
                                       const machine_peak& peak, std::uint64_t seed);

/// The rules of check_task() that take some tenths of a second: text; tolerance; cost; results at
/// every size and distribution; worth where these pass. One more takes a compiler's time: a plain
/// kernel that is the task's baseline compiles and computes what the reference does. Nothing is
/// timed. With an oracle that only compiles: text, tolerance, cost, and that the reference
/// compiles. A reference or baseline that fails is a finding
/// (`failed`, `baseline`), so that one broken task does not hide the others. An error (unavailable)
/// is an oracle that could not run.
base::expected<task_report> check_task_quickly(const task& what, reference_oracle& oracle,
                                               std::uint64_t seed,
                                               plain_baselines plain = plain_baselines::try_them);

/// The checks of a lane with tensors: check_task() at the peak of its oracle, check_task_quickly().
class tensor_checker final : public task_checker {
 public:
  explicit tensor_checker(std::unique_ptr<reference_oracle> oracle) : oracle_(std::move(oracle)) {}
  base::expected<task_report> check(const task& what, std::uint64_t seed) override;
  base::expected<task_report> check_quickly(const task& what, std::uint64_t seed,
                                            plain_baselines plain) override;

 private:
  std::unique_ptr<reference_oracle> oracle_;
};

/// For lane::open_checker and its like: a checker over the oracle that `Open` opens.
template <auto Open>
base::expected<std::unique_ptr<task_checker>> open_tensor_checker(
    const evaluator_options& options) {
  QUERN_TRY(auto oracle, Open(options));
  return std::make_unique<tensor_checker>(std::move(oracle));
}

}  // namespace quern::env
