// What an evaluator is opened with, whatever its lane.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/status.hpp"
#include "env/measure/estimate.hpp"
#include "env/sandbox/layer.hpp"
#include "env/task/suite_policy.hpp"

namespace quern::env {

/// Where an evaluator finds its programs and what it may use. A lane may add options of its own,
/// which have defaults (cpp_evaluator_options). The defaults are right for every
/// program that is installed beside `quern-runner` and `quern-torch`.
struct evaluator_options {
  /// `quern-runner`; empty: the sibling of the running program.
  std::filesystem::path runner_program;
  /// `quern-torch`; empty: the sibling of the running program.
  std::filesystem::path reference_program;
  /// Content-addressed artefacts of the compiler; empty: a private temporary folder, with the
  /// precompiled prelude in the user's cache.
  std::filesystem::path cache_dir;
  /// Lanes on a core: the one that measures; -1: the first that no other evaluator has reserved
  /// (flock).
  int core = -1;
  /// Lanes on a GPU: the one that measures, by the driver's number.
  int gpu = 0;
  /// Lanes of cores that can judge on a GPU, too (lane::on_gpus_too): on that one.
  bool on_gpu = false;
  /// What candidates may do whose request does not say.
  suite_policy policy{.graphs = true};
  /// Seconds of measuring (both sides, handshakes and checks included) that one candidate may cost.
  double time_budget_s = 0.5;
  /// Measuring ends before the budget once both half-widths of ln(baseline / candidate) that the
  /// windows give are this small (narrow_enough()).
  double precision = 0.006;
  /// Half-width of the whole interval above which a verdict is `noisy`. Wider limits suit a host
  /// whose neighbours cannot be kept quiet: a claim never says more than its interval.
  double noise_limit = estimate_limits{}.half_width;
  /// Turned off only by tests that show that the sandbox alone is enough.
  bool static_screen = true;
  /// `required`: refuse to open where a needed layer is missing; otherwise the verdict tells what
  /// was on.
  bool sandbox_required = true;
  /// Turned off only by tests and fault benchmarks, to see what it is worth: a reference process
  /// that died is not started again, and the device goes on without quarantine.
  bool restart_reference = true;
  /// Given only by tests and benchmarks: the layers that children get, whatever the host has.
  std::optional<layer_set> layers;
  /// Key of the hidden inputs. None: from the operating system, so that nobody can know them;
  /// deterministic runs set it.
  std::optional<std::uint64_t> input_seed;
  /// Probability that a cached `ok` is measured again and pooled.
  double remeasure_probability = 0.125;
  /// A large claim is measured again at once, in fresh processes, instead of being returned capped.
  bool confirm_at_once = false;
  /// Share of evaluations that end with evidence (verdict::evidence), where a lane collects it and
  /// the suite does not need it anyway (suite_policy::by_evidence).
  double evidence_share = 0;
  /// A kernel against itself on this device class (env/measure/null_distribution.hpp); empty: as
  /// it was calibrated on this host, or the built-in table.
  std::filesystem::path null_file;
  /// Of a checker of tasks whose references are programs of others: wall seconds that one task may
  /// take, and bytes that a process of its may have. 0: as the lane has them.
  double task_seconds = 0;
  std::int64_t task_memory_bytes = 0;
};

/// Finds the programs that are not named, and draws the key of hidden inputs where there is none.
/// Error: not_found, saying which program and where it was looked for.
base::status fill_in(evaluator_options& options);

/// Whether budget, precision and noise limit are within what lanes on a core can measure by. Error:
/// invalid_argument, with the value and the limit.
base::status check_measuring(const evaluator_options& options);

}  // namespace quern::env
