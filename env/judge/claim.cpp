// What is done with measurements, whatever made them.
#include "env/judge/claim.hpp"

namespace quern::env {
namespace {

/// Numbers of the measurements of one evaluation, so that each has its own random order.
constexpr std::uint64_t first_round = 0, recheck_round = 1, wide_round = 2, confirming_round = 3,
                        deciding_round = 4;

void tell(const judgement& j, verdict& v) {
  v.kind = j.kind;
  v.reason = j.reason;
  v.detail = j.detail;
  v.time = j.time;
}

/// Measures a claim once more. False: the verdict says already what was wrong, or does now: what is
/// beyond belief once is not believed. Noise adds nothing.
bool measure_again(const measuring& how, std::uint64_t round, std::vector<process_pairs>& fresh,
                   std::vector<std::int64_t>& again_e2, verdict& v) {
  std::vector<process_pairs> more;
  if (!how.measure(round, more)) return false;
  const auto judged = how.judge(more);
  if (judged.kind == verdict_kind::hack) {
    tell(judged, v);
    return false;
  }
  if (judged.kind != verdict_kind::ok) return true;
  again_e2.push_back(judged.speedup_e2);
  fresh.insert(fresh.end(), more.begin(), more.end());
  return true;
}

}  // namespace

void measure_and_settle(const measuring& how, std::vector<process_pairs>& runs,
                        std::optional<std::int64_t>& claim_e2, verdict& v) {
  std::vector<process_pairs> fresh;
  if (!how.measure(how.recheck ? recheck_round : first_round, fresh)) return;
  judgement j = how.judge(fresh);
  if (j.wide && j.kind != verdict_kind::hack) {
    if (!how.measure(wide_round, fresh)) return;
    j = how.judge(fresh);
  }
  const bool large = j.kind == verdict_kind::ok && needs_recheck(j.speedup_e2, how.claims);
  std::vector<std::int64_t> again_e2;
  std::optional<std::int64_t> first_e2;
  if (how.recheck && claim_e2 && j.kind == verdict_kind::ok) {
    first_e2 = claim_e2;
    again_e2.push_back(j.speedup_e2);
  } else if (large && (how.confirm_at_once || how.recheck)) {
    if (!measure_again(how, confirming_round, fresh, again_e2, v)) return;
  } else if (!large && j.kind == verdict_kind::ok) {
    // Pooled with what was measured of the same source before.
    auto all = runs;
    all.insert(all.end(), fresh.begin(), fresh.end());
    if (auto pooled = how.judge(all); !runs.empty() && pooled.kind == verdict_kind::ok)
      j = std::move(pooled);
  }
  if (again_e2.size() == 1 && needs_third(first_e2.value_or(j.speedup_e2), again_e2.front()) &&
      !measure_again(how, deciding_round, fresh, again_e2, v))
    return;
  runs.insert(runs.end(), fresh.begin(), fresh.end());
  tell(j, v);
  if (j.kind != verdict_kind::ok) return;
  v.speedup_e2 = first_e2.value_or(j.speedup_e2);
  if (large && again_e2.empty()) claim_e2 = j.speedup_e2;
  if (!large && again_e2.empty()) v.confirmed = true;
  settle_claim(v, how.claims, again_e2);
}

}  // namespace quern::env
