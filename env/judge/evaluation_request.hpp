// One candidate to judge, and where the time of evaluations goes, whatever the lane.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "env/task/suite_policy.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// Reason of a `timeout` that evaluation_request::time_limit_s has made behind the build.
inline constexpr std::string_view whole_evaluation = "evaluation";

/// One candidate to judge.
struct evaluation_request {
  /// Shared, because an evaluator keeps the tasks that it has prepared.
  std::shared_ptr<const task> subject;
  std::string source;
  /// A name of env/measure/measure_name.hpp, such as `paired/1` or
  /// `cuda_l1_report/1@graph`. `cost_model/1`: the time comes from cost_model.hpp, all else stays
  /// real.
  std::string protocol = "paired/1";
  /// Address of this evaluation's random numbers (window order, transforms, re-measuring).
  std::uint64_t seed = 0;
  /// Stop after the checks: `ok` without `time` and `speedup_e2`. For corpora.
  bool verify_only = false;
  /// Lanes that can do without host code, for benchmarks: as host-entry, although a launch plan
  /// could be read.
  bool as_host_entry = false;
  /// Measure again in fresh processes, whatever is cached; confirms or refutes an earlier claim.
  bool recheck = false;
  /// With `recheck`: an earlier claim x 100 that is to be borne out here; 0: none.
  std::int64_t claim_e2 = 0;
  /// Best known speed-up x 100 on this device class; 0: none known.
  std::int64_t best_known_e2 = 0;
  /// Claims above it are rechecked (suite.yaml).
  double recheck_above = 30.0;
  /// Seconds that the whole evaluation may take, its build included; 0: the limits of its stages
  /// alone. Once they are over it is a `timeout`, unless its device is in trouble.
  double time_limit_s = 0;
  /// What the suite allows; none: the evaluator's own.
  std::optional<suite_policy> policy = std::nullopt;
};

/// Seconds since the evaluator was opened, by stage: where the time of an evaluation goes.
struct stage_seconds {
  double screen = 0, compile = 0, start = 0, verify = 0, probe = 0, time = 0, reverify = 0;
  double reference = 0;
  std::int64_t evaluations = 0, cache_hits = 0;
};

}  // namespace quern::env
