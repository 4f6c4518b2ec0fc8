// The evaluator of lane `cpp`: (task, candidate source) -> verdict, through screen, compiler,
// checks, probe and clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/device/device_quarantine.hpp"
#include "env/judge/judge.hpp"
#include "env/measure/estimate.hpp"
#include "env/sandbox/layer.hpp"
#include "env/task/suite_policy.hpp"
#include "env/task/task.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// Where an evaluator finds its programs and what it may use. The defaults are right for every
/// program that is installed beside `quern-runner` and `quern-torch`.
struct evaluator_options {
  /// `quern-runner`; empty: the sibling of the running program.
  std::filesystem::path runner_program;
  /// `quern-torch`; empty: the sibling of the running program.
  std::filesystem::path reference_program;
  /// Content-addressed artefacts of the compiler; empty: a private temporary folder, with the
  /// precompiled prelude in the user's cache.
  std::filesystem::path cache_dir;
  /// The core that measures; -1: the first that no other evaluator has reserved (flock).
  int core = -1;
  /// Lane `cuda`: the GPU that measures, by the driver's number.
  int gpu = 0;
  /// Lane `cuda`: what candidates may do whose request does not say.
  suite_policy policy{.graphs = true};
  /// Seconds of measuring (both sides, handshakes and checks included) that one candidate may cost.
  double time_budget_s = 0.5;
  /// Measuring ends before the budget once the half-width of the 95 % interval that the windows
  /// give ln(baseline / candidate) is this small.
  double precision = 0.006;
  /// Half-width of the whole interval above which a verdict is `noisy`. Wider limits suit a host
  /// whose neighbours cannot be kept quiet: a claim never says more than its interval.
  double noise_limit = estimate_limits{}.half_width;
  /// CPU seconds that a candidate may use for one call while it is checked (hidden sizes).
  double call_cpu_s = 0.5;
  /// Turned off only by tests that show that the sandbox alone is enough.
  bool static_screen = true;
  /// `required`: refuse to open where a needed layer is missing; otherwise the verdict tells what
  /// was on.
  bool sandbox_required = true;
  /// Turned off only by tests and fault benchmarks, to see what it is worth: a reference process
  /// that died is not started again, and the device goes on without quarantine.
  bool restart_reference = true;
  /// Lane `cpp`, given only by tests: when the device is taken out and tried again.
  std::optional<device_quarantine::limits> quarantine;
  /// Given only by tests and benchmarks: the layers that children get, whatever the host has.
  std::optional<layer_set> layers;
  /// Key of the hidden inputs. None: from the operating system, so that nobody can know them;
  /// deterministic runs set it.
  std::optional<std::uint64_t> input_seed;
  /// Probability that a cached `ok` is measured again and pooled.
  double remeasure_probability = 0.125;
  /// A large claim is measured again at once, in fresh processes, instead of being returned capped.
  bool confirm_at_once = false;
  /// A kernel against itself on this device class (env/measure/null_distribution.hpp); empty: as
  /// it was calibrated on this host, or the built-in table.
  std::filesystem::path null_file;
  /// Bytes of hidden inputs and expected outputs that are kept for tasks seen lately.
  std::size_t expectation_cache_bytes = 512u << 20;
};

/// One candidate to judge.
struct evaluation_request {
  /// Shared, because an evaluator keeps the tasks that it has prepared.
  std::shared_ptr<const task> subject;
  std::string source;
  /// A name of env/measure/measure_name.hpp, such as `paired/1` or, in lane `cuda`,
  /// `cuda_l1_report/1@graph`. `cost_model/1`: the time comes from cost_model.hpp, all else stays
  /// real.
  std::string protocol = "paired/1";
  /// Address of this evaluation's random numbers (window order, transforms, re-measuring).
  std::uint64_t seed = 0;
  /// Stop after the checks: `ok` without `time` and `speedup_e2`. For corpora.
  bool verify_only = false;
  /// Lane `cuda`, for benchmarks: as host-entry, although a launch plan could be read.
  bool as_host_entry = false;
  /// Measure again in fresh processes, whatever is cached; confirms or refutes an earlier claim.
  bool recheck = false;
  /// With `recheck`: a claim x 100 of another device that is to be borne out here; 0: none.
  std::int64_t claim_e2 = 0;
  /// Best known speed-up x 100 on this device class; 0: none known.
  std::int64_t best_known_e2 = 0;
  /// Claims above it are rechecked (suite.yaml).
  double recheck_above = 30.0;
  /// Lane `cuda`: what the suite allows; none: the evaluator's own.
  std::optional<suite_policy> policy = std::nullopt;
};

/// Seconds since the evaluator was opened, by stage: where the time of an evaluation goes.
struct stage_seconds {
  double screen = 0, compile = 0, start = 0, verify = 0, probe = 0, time = 0, reverify = 0;
  double reference = 0;
  std::int64_t evaluations = 0, cache_hits = 0;
};

/// Judges candidates of lane `cpp` on one reserved core. Owns a reference process and the children
/// of the candidate it is judging; all of them end with it.
class evaluator final : public candidate_judge {
 public:
  /// Reserves a core, probes the sandbox, finds the programs. Fails with what is missing and what
  /// to do. Starts the reference process only when a task first needs it.
  static base::expected<std::unique_ptr<evaluator>> open(evaluator_options options);

  ~evaluator() override;

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

  /// Internal (env/judge/pipeline.hpp).
  struct state;

 private:
  explicit evaluator(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
