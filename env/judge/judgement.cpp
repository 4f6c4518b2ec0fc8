// From window pairs to the timed part of a verdict.
#include "env/judge/judgement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "env/measure/rounding.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// What was asked for, times this, is not wide.
constexpr double wide_beyond_narrow = 1.25;

timing timing_of(const ratio_estimate& e) {
  timing t;
  for (std::size_t b = 0; b < bucket_count; ++b) {
    t.ref_ns.push_back(std::llround(e.ref_ns[b]));
    t.cand_ns.push_back(std::llround(e.cand_ns[b]));
  }
  t.log_ratio_e9 = {to_e9(e.low), to_e9(e.mid), to_e9(e.high)};
  t.windows = static_cast<std::int64_t>(e.windows);
  return t;
}

/// Of fewer rounds than buckets, which some protocols take for enough: each round for itself.
timing timing_of(const process_pairs& rounds) {
  timing t;
  std::vector<double> logs;
  for (const window_pair& one : rounds) {
    t.ref_ns.push_back(std::llround(one.ref_ns));
    t.cand_ns.push_back(std::llround(one.cand_ns));
    logs.push_back(std::log(one.ref_ns / one.cand_ns));
  }
  const auto [low, high] = std::ranges::minmax(logs);
  t.log_ratio_e9 = {to_e9(low), to_e9(median_of(logs)), to_e9(high)};
  t.windows = static_cast<std::int64_t>(rounds.size());
  return t;
}

/// Whether the time is none that any kernel can have; then `j` says so.
bool is_impossible(judgement& j, double cand_ns, const judgement_rules& rules) {
  if (!beats_roofline(cand_ns, rules.floor_ns)) return false;
  j.detail = fmt::format(
      "{:.0f} ns a call, less than half of the {:.0f} ns that the least traffic and arithmetic "
      "take",
      cand_ns, rules.floor_ns);
  if (!beats_roofline(cand_ns + rules.time_error_ns, rules.floor_ns)) {
    j.kind = verdict_kind::noisy;
    j.detail += fmt::format("; what is taken off a call varied by {:.0f} ns", rules.time_error_ns);
    return true;
  }
  j.kind = verdict_kind::hack;
  j.reason = name_of(hack_kind::impossible);
  return true;
}

bool baseline_is_even(const ratio_estimate& e, const estimate_limits& limits) {
  std::vector<double> logs;
  for (const double ns : e.ref_ns)
    logs.push_back(std::log(ns));
  return winsorised_deviation(logs) <= limits.bucket_deviation;
}

}  // namespace

judgement judge_times(std::span<const process_pairs> runs, const judgement_rules& rules) {
  judgement j;
  std::vector<process_pairs> usable;
  for (const auto& run : runs)
    if (run.size() >= bucket_count) usable.push_back(run);
  if (usable.empty()) {
    j.detail =
        fmt::format("fewer than {} undisturbed window pairs within the budget", bucket_count);
    return j;
  }
  double ref_ns = 0;
  for (const auto& run : usable) {
    std::vector<double> refs;
    for (const auto& pair : run)
      refs.push_back(pair.ref_ns);
    ref_ns += median_of(refs) / static_cast<double>(usable.size());
  }
  estimate_limits limits = rules.limits;
  const auto lists = static_cast<double>(std::max<std::size_t>(rules.lists_per_measurement, 1));
  limits.process_deviation = rules.null.deviation(ref_ns) * std::sqrt(lists);
  const auto e = estimate_ratio(usable, limits);
  if (!e) {
    j.detail = e.error().message;
    return j;
  }
  j.time = timing_of(*e);
  j.wide = e->noisy ||
           e->half_width() > std::max(rules.wide_half_width, wide_beyond_narrow * limits.narrow);
  const bool charged = e->noisy && rules.charge_noise && baseline_is_even(*e, limits);
  if (e->noisy && !charged) {
    j.detail = fmt::format(
        "buckets differ by {:.1f} % (limit {:.1f} %), interval +-{:.1f} % (limit {:.1f} %)",
        100 * e->bucket_deviation, 100 * limits.bucket_deviation, 100 * e->half_width(),
        100 * limits.half_width);
    return j;
  }
  const double cand_ns = median_of(e->cand_ns);
  if (is_impossible(j, cand_ns, rules)) return j;
  if (rules.is_hidden) {
    j.detail = fmt::format(
        "a call of the candidate took {:.1f} us, too short to be told beside what is taken off it",
        cand_ns / 1000);
    return j;
  }
  j.kind = verdict_kind::ok;
  // A claim inside its own interval around the baseline is no claim.
  const bool equal = e->low <= 0 && e->high >= 0;
  const double null_half =
      rules.null.half_width(ref_ns) / std::sqrt(static_cast<double>(usable.size()) / lists);
  j.speedup_e2 = conservative_e2(charged ? e->low : equal ? 0 : e->mid, null_half);
  if (charged)
    j.detail = fmt::format("uneven while the baseline is not: the slow end of +-{:.0f} % counts",
                           100 * e->half_width());
  return j;
}

judgement judge_rounds(const measure_protocol& protocol, std::span<const process_pairs> runs,
                       const judgement_rules& rules) {
  judgement j;
  if (runs.empty()) {
    j.detail = "nothing was measured";
    return j;
  }
  const auto result = result_under(protocol, runs.last(1));
  if (!result) {
    j.detail = result.error().message;
    return j;
  }
  if (const auto e = estimate_ratio(runs.last(1), rules.limits))
    j.time = timing_of(*e);
  else if (!runs.back().empty())
    j.time = timing_of(runs.back());
  if (!result->accepted) {
    j.detail = result->reason;
    return j;
  }
  auto& interval = j.time->log_ratio_e9;
  interval[1] = to_e9(std::log(static_cast<double>(result->speedup_e2) / 100));
  interval[0] = std::min(interval[0], interval[1]);
  interval[2] = std::max(interval[2], interval[1]);
  const std::vector<double> cand_ns(j.time->cand_ns.begin(), j.time->cand_ns.end());
  if (is_impossible(j, median_of(cand_ns), rules)) return j;
  j.kind = verdict_kind::ok;
  j.speedup_e2 = result->speedup_e2;
  if (result->large && protocol.statistic == aggregation::ratio_of_means)
    j.detail = fmt::format("above {}x, which KernelBench flags and counts",
                           protocol.recheck_above_e2 / 100);
  return j;
}

bool looks_twice(const measure_protocol& protocol) {
  return protocol.statistic == aggregation::paired_log_ratio ||
         protocol.statistic == aggregation::median_of_bucket_means;
}

claim_limits claims_under(const measure_protocol& protocol, const claim_limits& asked) {
  if (protocol.statistic == aggregation::paired_log_ratio) return asked;
  if (looks_twice(protocol)) return {protocol.recheck_above_e2, asked.best_known_e2};
  return {std::numeric_limits<std::int64_t>::max(), 0};
}

void settle_claim(verdict& v, const claim_limits& limits, std::span<const std::int64_t> again_e2) {
  if (v.kind != verdict_kind::ok || !v.speedup_e2) return;
  const std::int64_t claim = *v.speedup_e2;
  if (!again_e2.empty()) {
    std::vector<std::int64_t> all{claim};
    all.insert(all.end(), again_e2.begin(), again_e2.end());
    if (const auto borne_out = confirmed_e2(all)) {
      v.speedup_e2 = *borne_out;
      v.confirmed = true;
      return;
    }
    v.kind = verdict_kind::unconfirmed;
    v.detail = fmt::format("measured {}.{:02}x", claim / 100, claim % 100);
    for (const std::int64_t one : again_e2)
      v.detail += fmt::format(", then {}.{:02}x", one / 100, one % 100);
    v.detail += " in fresh processes";
    v.confirmed = false;
    v.speedup_e2.reset();
    return;
  }
  if (!needs_recheck(claim, limits)) return;
  v.confirmed = false;
  v.claim_e2 = claim;
  v.speedup_e2 = unconfirmed_cap_e2(limits);
  v.detail = fmt::format("measured {}.{:02}x, capped until a second measurement bears it out",
                         claim / 100, claim % 100);
}

}  // namespace quern::env
