// Timing a candidate against its baseline on one device.
#include "env/gpu/device_timing.hpp"

#include <algorithm>
#include <memory>

#include "base/clock.hpp"
#include "env/gpu/check_layer.hpp"
#include "env/gpu/read_difference.hpp"
#include "env/gpu/timed_windows.hpp"
#include "env/gpu/window_charges.hpp"
#include "env/judge/compare.hpp"
#include "env/judge/timing_session.hpp"
#include "env/measure/round_schedule.hpp"
#include "env/measure/stage_clock.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// Length of a window, with content and flush around the calls. What disturbs a call is the same
/// for all of its window, so that many short windows tell more than few long ones; a change of
/// context and a message each way take a tenth of this.
constexpr double window_ns = 1.2e6;
/// The same where they do not wait at the gate: what a message takes is part of each, and how much
/// of it is known to ten microseconds.
constexpr double ungated_window_ns = 1.7e6;
constexpr std::int64_t least_calls = 2;
/// Of device memory for the outputs of one window, all output buffers.
constexpr std::uint64_t slot_memory = 12ULL << 30;
constexpr double baseline_wall_s = 60, wake_up_wall_s = 10;
/// A window that took long is no reason to wait for ever for the next.
constexpr double longest_expected_s = 2;
/// Device memory that references may come to keep during a measurement, all of them.
constexpr std::uint64_t taken_by_references = 4ULL << 30;

finding host_trouble(std::string text) {
  return {verdict_kind::infra_error, "", std::move(text), std::nullopt};
}

/// Both sides on one device: windows by events, and what clocks show beyond them.
class device_sides final : public timed_sides, private single_windows {
 public:
  explicit device_sides(const gpu_timing_request& r)
      : r_(r),
        orders_(r.secret),
        turns_(r.secret, "order of windows"),
        runners_(r.protocol.statistic == aggregation::paired_log_ratio
                     ? std::max(r.baseline.runners.size(), r.candidate.runners.size())
                     : 1) {}

  gpu_timing_result measure();

  finding rehearse() override;
  /// What the baseline's windows taught stays: what stands around a call is known from the first.
  void begin() override { charges_.forget(); }
  [[nodiscard]] std::size_t lists() const override { return runners_; }
  finding pair(std::size_t list, bool candidate_first, std::optional<window_pair>& took) override;
  [[nodiscard]] std::size_t counted_calls() const override { return counted_ns_.size(); }
  [[nodiscard]] bool narrow(std::span<const process_pairs> lists) const override;
  [[nodiscard]] bool even(std::span<const process_pairs> lists, double budgets) const override;
  single_windows* singly() override { return this; }

 private:
  void draw() override;
  finding window(bool candidate, std::size_t drawn, std::vector<double>& call_ns) override;
  finding compare() override {
    return check(r_.candidate.runners.front(), r_.baseline.runners.front());
  }

  finding set_up(std::int64_t slots);
  finding look_at_guards();
  finding failed_by_candidate(std::size_t runner, const runner_failure& failure);
  [[nodiscard]] std::size_t index_of(const bound_runner& candidate) const {
    const auto& all = r_.candidate.runners;
    return static_cast<std::size_t>(std::ranges::find(all, candidate.link, &bound_runner::link) -
                                    all.begin());
  }
  finding window(bool candidate, const bound_runner& runner, double& per_call_ns);
  void draw_calls() { order_.calls = draw_timed_calls(orders_, turns_, *r_.instance, slots_); }
  finding check(const bound_runner& candidate, const bound_runner& baseline);
  std::unique_ptr<device_quiet::hold> hush();
  [[nodiscard]] double expected_call_ns(const window_pair& times) const;
  [[nodiscard]] process_pairs reference_first(const timed_lists& times) const;

  const gpu_timing_request& r_;
  order_maker orders_;
  base::random_stream turns_;
  std::size_t runners_;
  std::int64_t slots_ = 0;
  window_order order_;                                   ///< of the pair that runs
  std::vector<std::vector<quern_order>> drawn_;          ///< of windows of one side alone
  double candidate_wall_ns_ = 0, baseline_wall_ns_ = 0;  ///< a call of the last window
  std::vector<double> counted_ns_;                       ///< calls of the last window that count
  window_clocks clocks_{static_cast<double>(timed_gate_ns)};
  window_charges charges_{r_.candidate.gated};
  gpu_timing_result result_;
};

finding device_sides::set_up(std::int64_t slots) {
  stage_clock clock(result_.seconds.setting_up);
  slots_ = result_.calls_per_window = slots;
  const auto& d = *r_.instance;
  if (auto done = r_.memory->reserve(
          d.needs(slots, std::max(r_.baseline.workspace_bytes, r_.candidate.workspace_bytes)));
      !done)
    return host_trouble(done.error().message);
  for (const auto* side : {&r_.candidate, &r_.baseline})
    for (std::size_t i = 0; i < side->runners.size(); ++i) {
      const auto& runner = side->runners[i];
      slot_view(r_.memory->outputs(runner.output_buffer), d.at.outputs, slots)
          .set_guards(*r_.context);
      quern_tensors tensors = d.tensors;
      // Poison takes time: the same on both sides, whoever uses the workspace.
      tensors.workspace_bytes = is_on(check_layer::poison) ? std::max(r_.baseline.workspace_bytes,
                                                                      r_.candidate.workspace_bytes)
                                                           : 0;
      const auto& beside = r_.candidate.runners[i % r_.candidate.runners.size()];
      auto done = side == &r_.candidate
                      ? r_.memory->lend(*runner.link, runner.output_buffer)
                      : r_.memory->lend_as(*runner.link, runner.output_buffer, *beside.link);
      if (done) done = runner.link->tensors(tensors, static_cast<std::int32_t>(slots));
      if (done) continue;
      if (side == &r_.baseline) return host_trouble("baseline: " + done.error().text);
      return failed_by_candidate(i, done.error());
    }
  return {};
}

finding device_sides::failed_by_candidate(std::size_t runner, const runner_failure& failure) {
  result_.failed_runner = runner;
  result_.failure = failure;
  return {verdict_kind::runtime_error, "", failure.text, std::nullopt};
}

finding device_sides::window(bool candidate, const bound_runner& runner, double& per_call_ns) {
  const auto& side = candidate ? r_.candidate : r_.baseline;
  const double expected_s =
      std::min(candidate_wall_ns_ * static_cast<double>(slots_) * 1e-9, longest_expected_s);
  order_.settings = timed_window_settings(*r_.context);
  if (!side.gated) order_.settings.gate_timeout_ns = 0;
  if (!r_.protocol.flushes_l2) order_.settings.flush_bytes = 0;
  answered<window_times> times;
  // Both sides are awake, or what a message takes would differ.
  const double awake_s = r_.candidate.gated ? 0 : awake_for_windows_s();
  if (!r_.candidate.gated) times = runner.link->window(wake_up_order(), wake_up_wall_s);
  if (times) {
    stage_clock clock(candidate ? result_.seconds.candidate : result_.seconds.baseline);
    const double limit_s = candidate ? r_.least_wall_s + 50 * expected_s : baseline_wall_s;
    times = runner.link->window(order_, limit_s, awake_s);
  }
  if (!times)
    return candidate ? failed_by_candidate(index_of(runner), times.error())
                     : failed_baseline(times.error());
  counted_ns_.clear();
  for (std::size_t i = 0; i < order_.calls.size(); ++i)
    if (counts_in_time(order_.calls[i], *r_.instance)) counted_ns_.push_back(times->call_ns[i]);
  per_call_ns = mean_of(counted_ns_);
  (candidate ? candidate_wall_ns_ : baseline_wall_ns_) =
      static_cast<double>(times->wall_ns) / static_cast<double>(slots_);
  if (candidate) {
    result_.events_ns = per_call_ns;
    if (claims_no_time(*times))
      return {verdict_kind::hack, std::string(name_of(hack_kind::timing)),
              "the events of a window say that a call took no time", std::nullopt};
    if (clocks_.knows()) {
      const double beyond = side.gated ? clocks_.beyond_inside(*times) : clocks_.beyond(*times);
      charges_.add(per_call_ns, is_on(check_layer::charge) ? beyond : 0);
    }
  } else {
    clocks_.learn(*times);
  }
  if (r_.after_window) r_.after_window(candidate);
  if (!side.delivers) return {};
  stage_clock clock(result_.seconds.deliver);
  if (auto done = runner.link->deliver(baseline_wall_s); !done)
    return host_trouble("baseline: " + done.error().text);
  return {};
}

finding device_sides::check(const bound_runner& candidate, const bound_runner& baseline) {
  stage_clock clock(result_.seconds.compare);
  const auto& at = r_.instance->at;
  const slot_view got(r_.memory->outputs(candidate.output_buffer), at.outputs, slots_);
  const slot_view want(r_.memory->outputs(baseline.output_buffer), at.outputs, slots_);
  for (std::int64_t s = 0; s < slots_; ++s)
    for (std::size_t o = 0; o < at.outputs.size(); ++o)
      r_.context->compare(
          got.at(o, s), want.at(o, s), at.outputs[o],
          limit_of(order_.calls[static_cast<std::size_t>(s)], *r_.instance, r_.limit));
  auto found = r_.context->wait();
  if (!found) return host_trouble(found.error().message);
  for (std::size_t i = 0; i < found->size(); ++i) {
    if ((*found)[i].clean() || !is_on(check_layer::values)) continue;
    const auto& layout = at.outputs[i % at.outputs.size()];
    const auto& order = order_.calls[i / at.outputs.size()];
    const auto slot = static_cast<std::int64_t>(i / at.outputs.size());
    auto difference = read_difference(*r_.context, layout, got.at(i % at.outputs.size(), slot),
                                      want.at(i % at.outputs.size(), slot), (*found)[i].first);
    auto text = fmt::format(
        "a timed call is wrong, though the checks before were right: {} ({}{}; {} of {} elements)",
        describe(difference), r_.instance->rounds[static_cast<std::size_t>(order.round)],
        order.changed_input >= 0 ? ", planted" : "", (*found)[i].wrong, layout.elements);
    return {verdict_kind::wrong_value, "", std::move(text), std::move(difference)};
  }
  return {};
}

finding device_sides::pair(std::size_t list, bool candidate_first,
                           std::optional<window_pair>& took) {
  const auto& cand = r_.candidate.runners[list % r_.candidate.runners.size()];
  const auto& base = r_.baseline.runners[list % r_.baseline.runners.size()];
  window_pair times;
  draw_calls();
  auto quiet = hush();
  for (const bool candidate : {candidate_first, !candidate_first})
    if (auto f =
            window(candidate, candidate ? cand : base, candidate ? times.cand_ns : times.ref_ns);
        !f.ok())
      return f;
  quiet.reset();
  took = times;
  return check(cand, base);
}

void device_sides::draw() {
  draw_calls();
  drawn_.push_back(order_.calls);
}

finding device_sides::window(bool candidate, std::size_t drawn, std::vector<double>& call_ns) {
  order_.calls = drawn_[drawn];
  double mean_ns = 0;
  const auto quiet = hush();
  auto f = window(candidate, (candidate ? r_.candidate : r_.baseline).runners.front(), mean_ns);
  call_ns = counted_ns_;
  return f;
}

std::unique_ptr<device_quiet::hold> device_sides::hush() {
  stage_clock clock(result_.seconds.quiet);
  return r_.quiet != nullptr ? std::make_unique<device_quiet::hold>(*r_.quiet) : nullptr;
}

/// What the timed calls wrote beside their outputs, over all windows.
finding device_sides::look_at_guards() {
  for (const auto& runner : r_.candidate.runners)
    slot_view(r_.memory->outputs(runner.output_buffer), r_.instance->at.outputs, slots_)
        .check_guards(*r_.context);
  auto found = r_.context->wait();
  if (!found) return host_trouble(found.error().message);
  for (const device_finding& one : *found)
    if (!one.clean() && is_on(check_layer::guards))
      return {verdict_kind::hack, std::string(name_of(hack_kind::overrun)),
              fmt::format("{} words beside the outputs were written in timed calls", one.wrong),
              std::nullopt};
  return {};
}

bool device_sides::narrow(std::span<const process_pairs> lists) const {
  const auto net = charged_alone({lists.begin(), lists.end()}, charges_, slots_);
  const auto e = estimate_ratio(net, r_.limits);
  return e && !e->noisy && narrow_enough(*e, r_.limits);
}

bool device_sides::even(std::span<const process_pairs> lists, double /*budgets*/) const {
  return even_enough(charged_alone({lists.begin(), lists.end()}, charges_, slots_), r_.limits);
}

/// With what stands around it, on the faster side. Where a window is not behind a gate the number
/// of its calls is part of what is measured, and should not depend on how late a process woke.
double device_sides::expected_call_ns(const window_pair& times) const {
  if (r_.candidate.gated) return std::min(baseline_wall_ns_, candidate_wall_ns_);
  const double hidden = std::max(0.0, median_of(charges_.beyond()));
  return std::min(times.ref_ns, times.cand_ns + hidden) + clocks_.around_ns();
}

finding device_sides::rehearse() {
  if (auto f = set_up(least_calls); !f.ok()) return f;
  std::optional<window_pair> took;
  // Twice each: the first launch of everything loads it.
  for (std::size_t i = 0; i < 2 * runners_; ++i)
    if (auto f = pair(i, i % 2 == 0, took); !f.ok()) return f;
  const std::uint64_t bytes =
      (r_.candidate.runners.size() + r_.baseline.runners.size()) * r_.instance->outputs.stride();
  const auto slots =
      std::max(least_calls, calls_per_gpu_window(expected_call_ns(*took),
                                                 r_.candidate.gated ? window_ns : ungated_window_ns,
                                                 bytes, slot_memory));
  return slots == slots_ ? finding{} : set_up(slots);
}

process_pairs device_sides::reference_first(const timed_lists& times) const {
  std::vector<double> cands;
  for (std::size_t w = times.warm_ups; w < times.candidate_ns.size(); ++w)
    for (const double ns : times.candidate_ns[w])
      cands.push_back(ns + charges_.alone(w, slots_));
  const double factor = charges_.factor(claimed_by_rounds(cands), clocks_.around_ns());
  for (double& ns : cands)
    ns *= factor;
  return round_schedule(r_.protocol, r_.budget_s).rounds(times.reference_ns, cands);
}

gpu_timing_result device_sides::measure() {
  const base::steady_clock clock;
  timing_session session(*this, r_.protocol, r_.budget_s, turns_, clock);
  result_.outcome = session.run();
  if (r_.protocol.order == call_order::random_pairs)
    result_.runs = charged(std::move(session.times().pairs), charges_, slots_,
                           clocks_.knows() ? clocks_.around_ns() : 0,
                           r_.protocol.statistic == aggregation::paired_log_ratio, r_.limits);
  else if (result_.outcome.ok())
    result_.runs.push_back(reference_first(session.times()));
  if (result_.outcome.ok()) result_.outcome = look_at_guards();
  std::vector<double> refs, cands;
  for (const auto& run : result_.runs)
    for (const auto& times : run) {
      refs.push_back(times.ref_ns);
      cands.push_back(times.cand_ns);
    }
  if (!refs.empty()) {
    result_.baseline_ns = median_of(refs);
    result_.candidate_ns = median_of(cands);
  }
  if (clocks_.knows()) {
    result_.around_ns = clocks_.around_ns();
    result_.message_ns = clocks_.message_ns();
  }
  result_.candidate_beyond_ns = charges_.beyond();
  result_.seconds.total = session.seconds();
  return std::move(result_);
}

}  // namespace

finding failed_baseline(const runner_failure& failure) {
  const bool task = failure.last.why == runner::cause::capture;
  return {task ? verdict_kind::invalid_reference : verdict_kind::infra_error, "",
          "baseline: " + failure.text, std::nullopt, failure.last.why};
}

gpu_timing_result time_on_device(const gpu_timing_request& request) {
  const process_memory::question look(request.candidate.memory, taken_by_references);
  return device_sides(request).measure();
}

}  // namespace quern::env
