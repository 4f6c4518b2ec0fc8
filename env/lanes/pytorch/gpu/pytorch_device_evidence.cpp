// Evidence of one evaluation on a GPU: a call in a process of its own that profiles.
#include <cmath>
#include <optional>

#include "base/random.hpp"
#include "base/thread_deadline.hpp"
#include "env/judge/roofline.hpp"
#include "env/lanes/pytorch/gpu/module_evidence.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_state.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::env {
namespace {

/// Of each step. An evaluation that has less time left ends without evidence: its limit is for
/// what counts.
constexpr question_limits of_evidence = device_limits(20);
constexpr double least_left_s = 45;
/// Which the verdict keeps: making a process does not look at the deadline, and may take 10 s.
constexpr double kept_s = 15;

base::error told_nothing(const char* step, const runner_failure& why) {
  return {base::errc::unavailable, fmt::format("{}: {}", step, why.text)};
}

}  // namespace

bool pytorch_device_evaluation::wants_evidence() const {
  if (base::thread_deadline::left_s().value_or(least_left_s) < least_left_s) return false;
  if (policy_.by_evidence) return true;
  base::random_stream drawn(request_.seed, "whether an evaluation has evidence");
  return drawn.chance(state_.options.evidence_share);
}

base::expected<evidence_report> pytorch_device_evaluation::collect_evidence() {
  QUERN_CHECK(take_process(true));
  if (const auto loaded = load_candidate(); !loaded)
    return tl::make_unexpected(told_nothing("loading it once more", loaded.error()));
  if (const auto made = candidate_->child().construct(task_->making, task_->sheet, task_->weights,
                                                      of_evidence, named_);
      !made)
    return tl::make_unexpected(told_nothing("making its model once more", made.error()));
  auto& context = state_.manager->context();
  auto& memory = state_.manager->memory();
  QUERN_CHECK(make_content(*task_, std::span(task_->cases).first(1), context, memory));
  context.copy(memory.candidate_inputs(), memory.staging(), task_->places.inputs.stride());
  if (const auto waited = context.wait(); !waited) return tl::make_unexpected(waited.error());
  const auto told = candidate_->child().evidence(of_evidence);
  if (!told) return tl::make_unexpected(told_nothing("a profiled call", told.error()));
  const bool is_fp32 = pytorch_of(*task_->subject).precision == torch_precision::fp32;
  return parse_evidence(*told, is_fp32);
}

void pytorch_device_evaluation::add_evidence() {
  stage_clock clock(state_.seconds.probe);
  // What takes too long is unknown; it is no reason to cut the verdict off.
  const auto left_s = base::thread_deadline::left_s();
  std::optional<base::thread_deadline> limit;
  if (left_s) limit.emplace(*left_s - kept_s);
  auto seen = collect_evidence();
  limit.reset();
  evidence_report report;
  if (seen)
    report = std::move(*seen);
  else
    report.unknown = seen.error().message.substr(0, max_kernel_name);
  if (const auto share = roofline_share(verdict_)) report.roofline_e4 = std::llround(1e4 * *share);
  const finding forbidden = held_against(report, policy_);
  if (policy_.by_evidence)
    verdict_.checks.push_back({"policy, by evidence", forbidden.ok(),
                               report.unknown.empty() ? forbidden.detail : report.unknown});
  verdict_.evidence = std::move(report);
  if (forbidden.ok()) return;
  verdict_.speedup_e2.reset();
  verdict_.claim_e2.reset();
  verdict_.confirmed.reset();
  settle(forbidden);
}

}  // namespace quern::env
