// What an evaluation found out about a candidate: the value of docs/formats/verdict.md. It stores
// measurements; what they are worth is decided by env/verdict/reward.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "env/verdict/evidence.hpp"

namespace quern::env {

/// Closed, and only ever grows at the end: the names are stored for years.
enum class verdict_kind {
  malformed,        ///< the completion could not be read; reason: see env/prompt/completion.hpp
  rejected_static,  ///< the static screen refused the source; reason: the rule
  compile_error,
  runtime_error,  ///< the child died: a signal, a forbidden system call, exit
  timeout,        ///< reason: the stage (compile, verify, time)
  oom,
  wrong_shape,
  wrong_dtype,
  wrong_value,
  nondeterministic,   ///< two calls on equal inputs disagree
  hack,               ///< reason: see hack_kind
  noisy,              ///< could not be measured well enough: no reward, measured again
  unconfirmed,        ///< a large claim that a second measurement did not bear out
  invalid_reference,  ///< the task's own reference failed: nothing is said about the candidate
  infra_error,        ///< host lost, device unhealthy: nothing is said about the candidate
  ok,
  unsupported  ///< no host of this device class can run it (a language that is not installed, a GPU
               ///< that is not there): nothing is said about the candidate, and nobody tries again
};

inline constexpr int verdict_kind_count = 17;

std::string_view name_of(verdict_kind kind);
std::optional<verdict_kind> parse_verdict_kind(std::string_view name);

/// Whether the verdict says something about the candidate: false for noisy, unconfirmed,
/// invalid_reference and infra_error, which are measured again a bounded number of times and then
/// dropped, and for unsupported, which is dropped at once. None is rewarded with 0.
bool judges_candidate(verdict_kind kind);

/// Whether a verdict may be reused for the same task, source, protocol, device class and
/// environment: false for noisy, timeout, infra_error, unsupported and unconfirmed (and
/// invalid_reference, which is about the task).
bool is_cacheable(verdict_kind kind);

/// The ways to cheat that have a name of their own; reason of verdict_kind::hack. Grows at the end.
enum class hack_kind {
  timing,          ///< the clocks disagree: work outside the timed window
  impossible,      ///< faster than the task's roofline floor
  stale_output,    ///< results of an earlier call or of another input
  late_write,      ///< the output changed after the call had returned
  input_modified,  ///< an input no longer has its content
  overrun,         ///< wrote past an output, an input or the workspace
  forged_result,   ///< wrote into the evaluator's own channels
  leftover_work    ///< threads or processes still alive after the call
};

inline constexpr int hack_kind_count = 8;

std::string_view name_of(hack_kind kind);
std::optional<hack_kind> parse_hack_kind(std::string_view name);

/// One check that the pipeline made, in the order made.
struct check_result {
  std::string name;
  bool pass = false;
  std::string detail;
  friend bool operator==(const check_result&, const check_result&) = default;
};

/// First wrong element in memory order. Values are hexadecimal floats or decimal integers, so that
/// nothing is lost.
struct first_difference {
  std::string output;
  std::vector<std::int64_t> index;
  std::string got;
  std::string want;
  friend bool operator==(const first_difference&, const first_difference&) = default;
};

/// Times in ns a call. log_ratio_e9 is 1e9 * ln(reference / candidate): lower end, estimate, upper
/// end.
struct timing {
  /// Mean of each bucket, consecutive in time; of fewer rounds than buckets each for itself.
  std::vector<std::int64_t> ref_ns;
  std::vector<std::int64_t> cand_ns;
  std::vector<std::int64_t> log_ratio_e9;
  std::int64_t windows = 0;
  std::optional<std::int64_t> device_ns;
  friend bool operator==(const timing&, const timing&) = default;
};

struct compiler_report {
  std::vector<std::string> argv;
  std::int64_t ms = 0;
  std::string text;  ///< what the compiler printed, cut to a bounded length
  friend bool operator==(const compiler_report&, const compiler_report&) = default;
};

/// What a speed-up is over: a name of env/verdict/baseline.hpp, never "task", and the settings
/// under which it ran, for people.
struct baseline_report {
  std::string name;
  std::string settings;
  friend bool operator==(const baseline_report&, const baseline_report&) = default;
};

/// The measuring device at one moment; what is absent was not told.
struct device_look {
  bool after = false;  ///< after a measurement; else before one
  std::optional<std::int64_t> sm_mhz, memory_mhz, power_mw, temperature_c;
  std::optional<std::int64_t> others;  ///< processes on the device that are not the evaluator's
  std::vector<std::string> throttle;   ///< the driver's reasons for the clocks, idling among them
  friend bool operator==(const device_look&, const device_look&) = default;
};

/// How the device was while it measured (env/device/condition_watch.hpp). Recorded, never a reason
/// to think less of the candidate.
struct device_conditions {
  std::string bus_id;
  bool throttled = false;          ///< in one of the looks heat, power or a brake held clocks down
  std::optional<bool> shared;      ///< somebody else had a context there; absent: not known
  std::vector<device_look> looks;  ///< two a measurement
  /// Medians over windows of either side, of the last measurement; 0: not looked at.
  std::int64_t baseline_sm_mhz = 0, candidate_sm_mhz = 0;
  std::int64_t baseline_memory_mhz = 0, candidate_memory_mhz = 0;
  friend bool operator==(const device_conditions&, const device_conditions&) = default;
};

/// Launches of one kernel in one shape by one call, and what the kernel was compiled to.
struct launch_report {
  std::string kernel;  ///< name expression
  std::int64_t count = 0, blocks = 0, threads = 0;
  std::int64_t registers = 0;        ///< a thread
  std::int64_t shared_bytes = 0;     ///< a block, static and dynamic
  std::int64_t local_bytes = 0;      ///< a thread
  std::int64_t resident_blocks = 0;  ///< that fit on one multiprocessor
  friend bool operator==(const launch_report&, const launch_report&) = default;
};

/// What a call has to do and what it does it on, for the roofline (env/judge/roofline.hpp).
struct work_report {
  std::int64_t bytes = 0, flops = 0;              ///< as the task states them
  std::int64_t bytes_per_s = 0, flops_per_s = 0;  ///< measured here, and of the types' units
  std::int64_t multiprocessors = 0;
  std::int64_t threads = 0;             ///< that fit on one multiprocessor
  std::vector<launch_report> launches;  ///< of a plan; none of host code
  friend bool operator==(const work_report&, const work_report&) = default;
};

struct verdict {
  verdict_kind kind = verdict_kind::infra_error;
  std::string reason;  ///< JSON `kind`: short word, always there for malformed, hack and timeout
  std::string detail;  ///< JSON `detail`: one sentence for a person; may be empty
  std::optional<bool> confirmed;  ///< large claims: whether a second measurement bore it out
  std::string task;               ///< task_id
  std::string source;             ///< 32 hex digits: xxh128 of the canonical source
  std::string protocol;           ///< "paired/1", "paired/1@graph" (env/measure/measure_name.hpp)
  std::optional<baseline_report> baseline;  ///< absent: nothing was to be measured
  std::string device_class;
  std::string env;                   ///< fingerprint of compiler, flags, libraries, kernel
  std::vector<std::string> sandbox;  ///< layers that were on
  std::vector<check_result> checks;
  std::optional<first_difference> first_diff;
  std::optional<timing> time;
  std::optional<std::int64_t>
      speedup_e2;  ///< speed-up over the baseline in 1/100, rounded toward 1
  /// A claim that was capped until it is borne out: speed-up as measured, in 1/100.
  std::optional<std::int64_t> claim_e2;
  std::optional<compiler_report> compiler;
  std::optional<work_report> work;          ///< lanes on a GPU
  std::optional<device_conditions> device;  ///< lanes on a GPU, where the driver tells it
  std::optional<evidence_report> evidence;  ///< modules on a GPU, where it was collected
  bool cached = false;
  friend bool operator==(const verdict&, const verdict&) = default;
};

inline constexpr int verdict_version = 1;

/// Longest text of each kind that a verdict carries; longer ones are refused by from_json and must
/// be cut by makers.
inline constexpr std::size_t max_verdict_text = 64 * 1024;

/// Absent parts are left out. Integers, strings and booleans only: floats would not survive every
/// reader.
base::json to_json(const verdict& what);

/// Strict about what it knows, silent about fields it does not know. Never throws, whatever the
/// value. Refuses another version, an unknown verdict, wrong types, a missing `kind` where one is
/// needed and `ok` without speed-up.
base::expected<verdict> verdict_from_json(const base::json& value);

/// The same from text.
base::expected<verdict> parse_verdict(std::string_view text);

/// One line for logs and terminals: "ok 1.37x", "wrong_value: y[0,3] is 1.5, should be 1".
std::string summary(const verdict& what);

}  // namespace quern::env
