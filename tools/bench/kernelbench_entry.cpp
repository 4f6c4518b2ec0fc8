// A verdict as an entry of KernelBench's eval_results.json.
#include <algorithm>

#include <fmt/format.h>

#include "tools/bench/kernelbench_files.hpp"

namespace quern::tools {
namespace {

/// Above it KernelBench says `excessive_speedup`.
constexpr double excessive_speedup = 10;

std::string text_of_failure(const env::verdict& v) {
  if (v.kind == env::verdict_kind::compile_error && v.compiler && !v.compiler->text.empty())
    return v.compiler->text;
  return v.detail.empty() ? env::summary(v) : v.detail;
}

/// The keys under which KernelBench tells of a failure.
void put_failure(const env::verdict& v, base::ordered_json& metadata) {
  const auto put = [&](std::string_view key) {
    metadata[std::string(key) + "_name"] = env::name_of(v.kind);
    metadata[std::string(key)] = text_of_failure(v);
  };
  switch (v.kind) {
    case env::verdict_kind::ok:
      break;
    case env::verdict_kind::malformed:
    case env::verdict_kind::rejected_static:
    case env::verdict_kind::compile_error:
      put("compilation_error");
      break;
    case env::verdict_kind::timeout:
      metadata["error"] = "Evaluation timed out";
      break;
    case env::verdict_kind::runtime_error:
    case env::verdict_kind::oom:
      put("runtime_error");
      break;
    case env::verdict_kind::wrong_shape:
    case env::verdict_kind::wrong_dtype:
    case env::verdict_kind::wrong_value:
    case env::verdict_kind::nondeterministic:
    case env::verdict_kind::hack:
      put("correctness_issue");
      break;
    case env::verdict_kind::noisy:
    case env::verdict_kind::unconfirmed:
      metadata["error_during_performance"] = text_of_failure(v);
      break;
    case env::verdict_kind::invalid_reference:
    case env::verdict_kind::infra_error:
    case env::verdict_kind::unsupported:
      metadata["error"] = text_of_failure(v);
      break;
  }
}

std::string device_of(const env::verdict& v, std::string_view device_class) {
  return v.device && !v.device->bus_id.empty() ? v.device->bus_id : std::string(device_class);
}

base::ordered_json metadata_of(const bench_attempt& attempt, std::string_view device_class) {
  const env::verdict& v = *attempt.verdict;
  base::ordered_json metadata = {{"hardware", device_class},
                                 {"device", device_of(v, device_class)}};
  put_failure(v, metadata);
  if (!v.checks.empty())
    metadata["correctness_trials"] =
        fmt::format("({} / {})",
                    std::count_if(v.checks.begin(), v.checks.end(),
                                  [](const env::check_result& one) { return one.pass; }),
                    v.checks.size());
  const auto candidate = candidate_ms(v), baseline = baseline_ms(v);
  if (is_correct(v) && candidate && baseline && candidate->mean > 0 &&
      baseline->mean / candidate->mean > excessive_speedup)
    metadata["excessive_speedup"] = true;
  base::ordered_json own = {{"candidate", attempt.candidate}};
  const base::json verdict = env::to_json(v);
  for (const auto& [key, value] : verdict.items())
    own[key] = base::ordered_json(value);
  metadata["quern"] = std::move(own);
  return metadata;
}

}  // namespace

base::ordered_json kernelbench_entry(const bench_attempt& attempt, std::string_view device_class) {
  const env::verdict& v = *attempt.verdict;
  base::ordered_json stats = base::ordered_json::object();
  double runtime = -1;
  if (const auto ms = candidate_ms(v); ms && is_correct(v)) {
    runtime = ms->mean;
    stats = {{"mean", ms->mean},
             {"std", ms->deviation},
             {"min", ms->least},
             {"max", ms->largest},
             {"num_trials", v.time->cand_ns.size()},
             {"hardware", device_class},
             {"device", device_of(v, device_class)}};
  }
  return {{"sample_id", attempt.sample},  {"compiled", is_compiled(v)},
          {"correctness", is_correct(v)}, {"metadata", metadata_of(attempt, device_class)},
          {"runtime", runtime},           {"runtime_stats", std::move(stats)}};
}

}  // namespace quern::tools
