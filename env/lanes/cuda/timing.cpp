// Timing a candidate against its baseline on one device.
#include "env/lanes/cuda/timing.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "base/clock.hpp"
#include "env/gpu/check_layer.hpp"
#include "env/gpu/timed_windows.hpp"
#include "env/gpu/window_charges.hpp"
#include "env/judge/compare.hpp"
#include "env/lanes/cuda/checks.hpp"
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
/// Of device memory for the outputs of one window, all seats.
constexpr std::uint64_t slot_memory = 12ULL << 30;
constexpr double baseline_wall_s = 60, wake_up_wall_s = 10;
/// A window that took long is no reason to wait for ever for the next.
constexpr double longest_expected_s = 2;
/// Device memory that references may come to keep during a measurement, all of them.
constexpr std::uint64_t taken_by_references = 4ULL << 30;

finding host_trouble(std::string text) {
  return {verdict_kind::infra_error, "", std::move(text), std::nullopt};
}

class gpu_session {
 public:
  explicit gpu_session(const gpu_timing_request& r)
      : r_(r),
        orders_(r.secret),
        turns_(r.secret, "order of windows"),
        runners_(r.protocol.how == aggregation::paired_log_ratio
                     ? std::max(r.baseline.runners.size(), r.candidate.runners.size())
                     : 1) {}

  gpu_timing_result run();

 private:
  finding set_up(std::int64_t slots);
  finding rehearse();
  finding look_at_guards();
  finding failed_by_candidate(std::size_t runner, const runner_failure& failure);
  finding window(bool candidate, const seated_runner& runner, double& per_call_ns);
  void draw_calls() { order_.calls = draw_timed_calls(orders_, turns_, *r_.instance, slots_); }
  finding pair(std::size_t turn, bool candidate_first, window_pair& times);
  finding side_by_side(const std::function<double()>& seconds);
  finding in_pairs(const round_schedule& schedule, const std::function<double()>& seconds);
  finding one_side_first(const round_schedule& schedule, const std::function<double()>& seconds);
  finding check(const seated_runner& candidate, const seated_runner& baseline);
  std::unique_ptr<device_quiet::hold> hush();
  [[nodiscard]] double expected_call_ns(const window_pair& times) const;
  [[nodiscard]] bool narrow() const;

  const gpu_timing_request& r_;
  order_maker orders_;
  base::random_stream turns_;
  std::size_t runners_;
  std::int64_t slots_ = 0;
  window_order order_;                                   ///< of the pair that runs
  double candidate_wall_ns_ = 0, baseline_wall_ns_ = 0;  ///< a call of the last window
  std::vector<double> counted_ns_;                       ///< calls of the last window that count
  window_clocks clocks_{static_cast<double>(timed_gate_ns)};
  window_charges charges_{r_.candidate.gated};
  gpu_timing_result result_;
};

finding gpu_session::set_up(std::int64_t slots) {
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
      slot_view(r_.memory->outputs(runner.seat), d.at.outputs, slots).set_guards(*r_.desk);
      quern_tensors tensors = d.tensors;
      // Poison takes time: the same on both sides, whoever uses the workspace.
      tensors.workspace_bytes = is_on(check_layer::poison) ? std::max(r_.baseline.workspace_bytes,
                                                                      r_.candidate.workspace_bytes)
                                                           : 0;
      const auto& beside = r_.candidate.runners[i % r_.candidate.runners.size()];
      auto done = side == &r_.candidate
                      ? r_.memory->lend(*runner.link, runner.seat)
                      : r_.memory->lend_as(*runner.link, runner.seat, *beside.link);
      if (done) done = runner.link->tensors(tensors, static_cast<std::int32_t>(slots));
      if (done) continue;
      if (side == &r_.baseline) return host_trouble("baseline: " + done.error().text);
      return failed_by_candidate(i, done.error());
    }
  return {};
}

finding gpu_session::failed_by_candidate(std::size_t runner, const runner_failure& failure) {
  result_.failed_runner = runner;
  result_.failure = failure;
  return {verdict_kind::runtime_error, "", failure.text, std::nullopt};
}

finding gpu_session::window(bool candidate, const seated_runner& runner, double& per_call_ns) {
  const auto& side = candidate ? r_.candidate : r_.baseline;
  const double expected_s =
      std::min(candidate_wall_ns_ * static_cast<double>(slots_) * 1e-9, longest_expected_s);
  order_.how = timed_window_settings(*r_.desk);
  if (!side.gated) order_.how.gate_timeout_ns = 0;
  if (!r_.protocol.flushes_l2) order_.how.flush_bytes = 0;
  answered<window_times> times;
  // Both sides are awake, or what a message takes would differ.
  const double awake_s = r_.candidate.gated ? 0 : awake_for_windows_s();
  if (!r_.candidate.gated) times = runner.link->window(wake_up_order(), wake_up_wall_s);
  if (times) {
    stage_clock clock(candidate ? result_.seconds.candidate : result_.seconds.baseline);
    const double limit_s = candidate ? r_.least_wall_s + 50 * expected_s : baseline_wall_s;
    times = runner.link->window(order_, limit_s, awake_s);
  }
  if (!times) {
    if (!candidate) return failed_baseline(times.error());
    std::size_t which = 0;
    for (; side.runners[which].link != runner.link; ++which) {
    }
    return failed_by_candidate(which, times.error());
  }
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

finding gpu_session::check(const seated_runner& candidate, const seated_runner& baseline) {
  stage_clock clock(result_.seconds.compare);
  const auto& at = r_.instance->at;
  const slot_view got(r_.memory->outputs(candidate.seat), at.outputs, slots_);
  const slot_view want(r_.memory->outputs(baseline.seat), at.outputs, slots_);
  for (std::int64_t s = 0; s < slots_; ++s)
    for (std::size_t o = 0; o < at.outputs.size(); ++o)
      r_.desk->compare(got.at(o, s), want.at(o, s), at.outputs[o],
                       limit_of(order_.calls[static_cast<std::size_t>(s)], *r_.instance, r_.limit));
  auto found = r_.desk->wait();
  if (!found) return host_trouble(found.error().message);
  for (std::size_t i = 0; i < found->size(); ++i) {
    if ((*found)[i].clean() || !is_on(check_layer::values)) continue;
    const auto& layout = at.outputs[i % at.outputs.size()];
    const auto& order = order_.calls[i / at.outputs.size()];
    const auto slot = static_cast<std::int64_t>(i / at.outputs.size());
    auto difference = read_difference(*r_.desk, layout, got.at(i % at.outputs.size(), slot),
                                      want.at(i % at.outputs.size(), slot), (*found)[i].first);
    auto text = fmt::format(
        "a timed call is wrong, though the checks before were right: {} ({}{}; {} of {} elements)",
        describe(difference), r_.instance->rounds[static_cast<std::size_t>(order.round)],
        order.changed_input >= 0 ? ", planted" : "", (*found)[i].wrong, layout.elements);
    return {verdict_kind::wrong_value, "", std::move(text), std::move(difference)};
  }
  return {};
}

finding gpu_session::pair(std::size_t turn, bool candidate_first, window_pair& times) {
  const auto& cand = r_.candidate.runners[turn % r_.candidate.runners.size()];
  const auto& base = r_.baseline.runners[turn % r_.baseline.runners.size()];
  draw_calls();
  auto quiet = hush();
  for (const bool candidate : {candidate_first, !candidate_first})
    if (auto f =
            window(candidate, candidate ? cand : base, candidate ? times.cand_ns : times.ref_ns);
        !f.ok())
      return f;
  quiet.reset();
  return check(cand, base);
}

std::unique_ptr<device_quiet::hold> gpu_session::hush() {
  stage_clock clock(result_.seconds.quiet);
  return r_.quiet != nullptr ? std::make_unique<device_quiet::hold>(*r_.quiet) : nullptr;
}

/// What the timed calls wrote beside their outputs, over all windows.
finding gpu_session::look_at_guards() {
  for (const auto& runner : r_.candidate.runners)
    slot_view(r_.memory->outputs(runner.seat), r_.instance->at.outputs, slots_)
        .check_guards(*r_.desk);
  auto found = r_.desk->wait();
  if (!found) return host_trouble(found.error().message);
  for (const device_finding& one : *found)
    if (!one.clean() && is_on(check_layer::guards))
      return {verdict_kind::hack, std::string(name_of(hack_kind::overrun)),
              fmt::format("{} words beside the outputs were written in timed calls", one.wrong),
              std::nullopt};
  return {};
}

bool gpu_session::narrow() const {
  for (const auto& run : result_.runs)
    if (run.size() < bucket_count) return false;
  const auto e = estimate_ratio(charged_alone(result_.runs, charges_, slots_), r_.limits);
  return e && !e->noisy && e->window_half_width <= r_.limits.narrow;
}

/// With what stands around it, on the faster side. Where a window is not behind a gate the number
/// of its calls is part of what is measured, and should not depend on how late a process woke.
double gpu_session::expected_call_ns(const window_pair& times) const {
  if (r_.candidate.gated) return std::min(baseline_wall_ns_, candidate_wall_ns_);
  const double hidden = std::max(0.0, median_of(charges_.beyond()));
  return std::min(times.ref_ns, times.cand_ns + hidden) + clocks_.around_ns();
}

finding gpu_session::rehearse() {
  if (auto f = set_up(least_calls); !f.ok()) return f;
  window_pair times;
  // Twice each: the first launch of everything loads it.
  for (std::size_t i = 0; i < 2 * runners_; ++i)
    if (auto f = pair(i, i % 2 == 0, times); !f.ok()) return f;
  const std::uint64_t bytes =
      (r_.candidate.runners.size() + r_.baseline.runners.size()) * r_.instance->outputs.stride();
  const auto slots =
      std::max(least_calls, calls_per_gpu_window(expected_call_ns(times),
                                                 r_.candidate.gated ? window_ns : ungated_window_ns,
                                                 bytes, slot_memory));
  if (slots != slots_)
    if (auto f = set_up(slots); !f.ok()) return f;
  // The baseline's stays: what stands around a call is known from the first window on.
  charges_.forget();
  return {};
}

finding gpu_session::side_by_side(const std::function<double()>& seconds) {
  result_.runs.resize(runners_);
  // Orders come in blocks of two, one of each, for every pair of runners.
  std::vector<char> candidate_first(runners_, 0);
  const std::size_t least = bucket_count * runners_;
  for (std::size_t round = 0;; ++round) {
    if (round >= least && (seconds() >= r_.budget_s || narrow())) break;
    if (seconds() >= 4 * r_.budget_s + 2) break;
    const std::size_t turn = round % (2 * runners_);
    const std::size_t runner = turn % runners_;
    char& first = candidate_first[runner];
    first = turn < runners_ ? turns_.chance(0.5) : static_cast<char>(first == 0);
    window_pair times;
    if (auto f = pair(runner, first != 0, times); !f.ok()) return f;
    result_.runs[runner].push_back(times);
  }
  return {};
}

finding gpu_session::in_pairs(const round_schedule& schedule,
                              const std::function<double()>& seconds) {
  result_.runs.resize(1);
  auto& rounds = result_.runs.front();
  window_pair times;
  for (std::size_t done = 0; schedule.warming_up(done); done += counted_ns_.size())
    if (auto f = pair(0, turns_.chance(0.5), times); !f.ok()) return f;
  charges_.forget();
  while (schedule.more(seconds(), rounds.size())) {
    if (auto f = pair(0, turns_.chance(0.5), times); !f.ok()) return f;
    rounds.push_back(times);
  }
  return {};
}

finding gpu_session::one_side_first(const round_schedule& schedule,
                                    const std::function<double()>& seconds) {
  const auto& cand = r_.candidate.runners.front();
  const auto& base = r_.baseline.runners.front();
  std::vector<std::vector<quern_order>> windows;
  std::vector<double> refs, cands;
  double unused = 0;
  const auto side = [&](bool candidate, std::size_t w, std::vector<double>* into) -> finding {
    order_.calls = windows[w];
    const auto quiet = hush();
    if (auto f = window(candidate, candidate ? cand : base, unused); !f.ok()) return f;
    if (into != nullptr) into->insert(into->end(), counted_ns_.begin(), counted_ns_.end());
    return {};
  };
  std::size_t warm = 0;
  for (std::size_t done = 0; schedule.warming_up(done) || windows.empty();
       done += counted_ns_.size()) {
    draw_calls();
    windows.push_back(order_.calls);
    if (auto f = side(false, warm++, nullptr); !f.ok()) return f;
  }
  while (schedule.more(seconds(), refs.size())) {
    draw_calls();
    windows.push_back(order_.calls);
    if (auto f = side(false, windows.size() - 1, &refs); !f.ok()) return f;
  }
  std::vector<std::vector<double>> timed(windows.size());
  for (std::size_t w = 0; w < windows.size(); ++w) {
    if (auto f = side(true, w, &timed[w]); !f.ok()) return f;
    // What is right was overwritten by later windows: the reference once more, not timed.
    if (auto f = side(false, w, nullptr); !f.ok()) return f;
    if (auto f = check(cand, base); !f.ok()) return f;
  }
  for (std::size_t w = warm; w < windows.size(); ++w)
    for (const double ns : timed[w])
      cands.push_back(ns + charges_.alone(w, slots_));
  const double factor = charges_.factor(claimed_by_rounds(cands), clocks_.around_ns());
  for (double& ns : cands)
    ns *= factor;
  result_.runs.push_back(schedule.rounds(refs, cands));
  return {};
}

gpu_timing_result gpu_session::run() {
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  const std::function<double()> seconds = [&] {
    return static_cast<double>(clock.now_ns() - start) * 1e-9;
  };
  const round_schedule schedule(r_.protocol, r_.budget_s);
  result_.what = rehearse();
  if (result_.what.ok())
    result_.what = r_.protocol.how == aggregation::paired_log_ratio ? side_by_side(seconds)
                   : schedule.one_after_the_other() ? one_side_first(schedule, seconds)
                                                    : in_pairs(schedule, seconds);
  if (result_.what.ok()) result_.what = look_at_guards();
  if (!schedule.one_after_the_other())
    result_.runs = charged(std::move(result_.runs), charges_, slots_,
                           clocks_.knows() ? clocks_.around_ns() : 0,
                           r_.protocol.how == aggregation::paired_log_ratio, r_.limits);
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
  result_.seconds.total = seconds();
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
  return gpu_session(request).run();
}

}  // namespace quern::env
