// From window pairs to the timed part of a verdict: noisy, impossible, large claims, rounding.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "env/measure/estimate.hpp"
#include "env/measure/null_distribution.hpp"
#include "env/measure/protocols.hpp"
#include "env/measure/recheck.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// What a measurement is judged by.
struct judgement_rules {
  null_distribution null;
  estimate_limits limits;
  claim_limits claims;
  double floor_ns = 0;  ///< roofline floor of one call; 0: none known
  /// Half-width from which on a second pair of processes is worth its time.
  double wide_half_width = 0.03;
  /// By what a call may have taken longer than it is said to, where much is taken off it: a time
  /// below half of the floor by no more than that convicts nobody. It is `noisy`.
  double time_error_ns = 0;
  /// Lists of window pairs that one measurement gives: the null distribution is of measurements.
  std::size_t lists_per_measurement = 1;
  /// A candidate that is uneven while its baseline is not has itself to blame: the slow end of the
  /// interval counts, so that nobody turns a bad time into no verdict.
  bool charge_noise = false;
  /// What is taken off a call varies so much that the candidate's is hidden by it: no claim is one,
  /// and no unevenness is its fault. It is `noisy`, unless its time is impossible.
  bool is_hidden = false;
};

/// What measuring so far has given, and what should happen next.
struct judgement {
  verdict_kind kind = verdict_kind::noisy;  ///< ok, noisy or hack(impossible)
  std::string reason;
  std::string detail;
  std::optional<timing> time;
  std::int64_t speedup_e2 = 0;  ///< as measured, rounded toward 1, not capped
  bool wide = false;            ///< a second pair of processes would help
};

/// Judges the window pairs of one or more pairs of processes. Too few pairs are `noisy`.
judgement judge_times(std::span<const process_pairs> runs, const judgement_rules& rules);

/// The same under a protocol that is not paired/1, whose rules alone say what is noisy and what the
/// speed-up is: the last list counts, and nothing is pooled. Roofline and buckets are ours, and so
/// is the interval, which is for people: it decides nothing.
judgement judge_rounds(const measure_protocol& protocol, std::span<const process_pairs> runs,
                       const judgement_rules& rules);

/// Whether a claim under this protocol can be borne out by a second measurement. Where it cannot, a
/// verdict has no `confirmed`.
bool looks_twice(const measure_protocol& protocol);

/// Which claims are measured again: for paired/1 as the caller says; for others by their own limit,
/// or never. KernelBench's counts in any case and is only mentioned.
claim_limits claims_under(const measure_protocol& protocol, const claim_limits& asked);

/// Settles a claim in `v` (kind ok, speedup_e2 as measured): a claim above the limits is capped and
/// marked unconfirmed, unless `again_e2`, measured in fresh processes, decides it. Empty: it was
/// not measured again.
void settle_claim(verdict& v, const claim_limits& limits,
                  std::span<const std::int64_t> again_e2 = {});

}  // namespace quern::env
