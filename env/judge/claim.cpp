// What is done with measurements, whatever made them.
#include "env/judge/claim.hpp"

namespace quern::env {
namespace {

/// Numbers of the measurements of one evaluation, so that each has its own random order.
constexpr std::uint64_t first_round = 0, recheck_round = 1, wide_round = 2, confirming_round = 3;

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
  std::optional<std::int64_t> second_e2;
  std::optional<std::int64_t> first_e2;
  if (how.recheck && claim_e2 && j.kind == verdict_kind::ok) {
    first_e2 = claim_e2;
    second_e2 = j.speedup_e2;
  } else if (large && (how.confirm_at_once || how.recheck)) {
    std::vector<process_pairs> again;
    if (!how.measure(confirming_round, again)) return;
    const auto second = how.judge(again);
    if (second.kind == verdict_kind::ok) {
      first_e2 = j.speedup_e2;
      second_e2 = second.speedup_e2;
      fresh.insert(fresh.end(), again.begin(), again.end());
    }
  } else if (!large && j.kind == verdict_kind::ok) {
    // Pooled with what was measured of the same source before.
    auto all = runs;
    all.insert(all.end(), fresh.begin(), fresh.end());
    if (auto pooled = how.judge(all); !runs.empty() && pooled.kind == verdict_kind::ok)
      j = std::move(pooled);
  }
  runs.insert(runs.end(), fresh.begin(), fresh.end());
  v.kind = j.kind;
  v.reason = j.reason;
  v.detail = j.detail;
  v.time = j.time;
  if (j.kind != verdict_kind::ok) return;
  v.speedup_e2 = first_e2.value_or(j.speedup_e2);
  if (large && !second_e2) claim_e2 = j.speedup_e2;
  if (!large && !second_e2) v.confirmed = true;
  settle_claim(v, how.claims, second_e2);
}

}  // namespace quern::env
