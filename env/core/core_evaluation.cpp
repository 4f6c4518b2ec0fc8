#include "env/core/core_evaluation.hpp"

#include <cmath>

#include "base/random.hpp"
#include "env/judge/claim.hpp"
#include "env/judge/judge_layer.hpp"
#include "env/judge/judgement.hpp"

namespace quern::env {
namespace {

constexpr double core_lease_wait_s = 120;

}  // namespace

bool core_evaluation::fail_reference(const base::error& e) {
  lost_reference_ = e.code == base::errc::unavailable;
  return fail_host(e);
}

interruption core_evaluation::interrupted() const {
  const auto why = staged_evaluation::interrupted();
  if (why != interruption::none) return why;
  return lost_reference_ && common_.restart_reference ? interruption::reference_lost
                                                      : interruption::none;
}

estimate_limits core_evaluation::measuring_limits() const {
  estimate_limits limits;
  limits.bucket_deviation *= common_.noise_limit / limits.half_width;
  limits.half_width = common_.noise_limit;
  limits.narrow = common_.precision;
  return limits;
}

bool core_evaluation::time_sides(core_task& subject, const output_limits& limit,
                                 const measured_sides& sides, std::uint64_t round,
                                 process_pairs& into) {
  sides.checker->expect_call_ns(call_ns_);
  timing_request timed;
  timed.task = &subject;
  timed.limit = limit;
  timed.baseline = sides.baseline;
  timed.candidate = sides.candidate;
  timed.checker = sides.checker;
  timed.maker = sides.maker;
  timed.calls_one_by_one = sides.calls_one_by_one;
  base::random_stream addresses(request_.seed, "timing", {round});
  timed.order_seed = addresses.next_u64();
  timed.first_call = addresses.next_u64() >> 8;
  timed.budget_s = common_.time_budget_s;
  timed.limits = measuring_limits();
  timing_result result;
  {
    auto lease = core_lease::take(core_.core.core(), core_lease_wait_s);
    if (!lease) return fail_host(lease.error());
    stage_clock clock(core_.seconds.time);
    result = time_candidate(timed);
  }
  if (result.baseline_ns > 0) subject.baseline_ns = result.baseline_ns;
  lost_reference_ = result.baseline_gone;
  verdict_.checks.push_back({"timed outputs", result.outcome.right(), result.outcome.detail});
  if (!settle(result.outcome)) return false;
  into = std::move(result.pairs);
  return true;
}

void core_evaluation::time(core_task& subject) {
  const auto floor_ns = [&] {
    return judges_with(judge_layer::floor) ? static_cast<double>(subject.floor_ns) : 0;
  };
  judgement_rules rules;
  rules.null = core_.null;
  rules.limits = measuring_limits();
  rules.claims = {std::llround(100 * request_.recheck_above), request_.best_known_e2};
  rules.floor_ns = floor_ns();

  measuring how;
  how.measure = [&](std::uint64_t round, std::vector<process_pairs>& into) {
    process_pairs pairs;
    if (!measure_once(round, pairs)) return false;
    into.push_back(std::move(pairs));
    return true;
  };
  how.judge = [&](std::span<const process_pairs> all) {
    judgement j = judge_times(all, rules);
    if (j.kind != verdict_kind::hack) return j;
    // Before anybody is accused: was the floor measured on a busy machine?
    const auto& at = subject.timed.instance;
    subject.floor_ns = roofline_floor_ns(at, core_.peak.at(at.cost_bytes, true));
    rules.floor_ns = floor_ns();
    return judge_times(all, rules);
  };
  how.claims = rules.claims;
  how.recheck = request_.recheck;
  how.confirm_at_once = common_.confirm_at_once;
  measure_and_settle(how, runs_, claim_e2_, verdict_);
  const auto& timed = subject.timed.instance;
  if (verdict_.time) verdict_.work = work_on_core(timed, core_.peak.at(timed.cost_bytes, false));
}

}  // namespace quern::env
