// Times a module against its reference on one device.
#include "env/lanes/pytorch/gpu/device_module_timing.hpp"

#include <array>
#include <vector>

#include "env/gpu/check_layer.hpp"
#include "env/judge/calm_core.hpp"
#include "env/judge/calm_pairs.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/timing_session.hpp"
#include "env/lanes/pytorch/gpu/module_window_times.hpp"
#include "env/measure/round_schedule.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// Before the first pair that counts: libraries have chosen their kernels by then, and the
/// processor of a process that slept is as fast as it will be. At least so many, and more until
/// either is reached.
constexpr int least_warm_ups = 3, most_warm_ups = 40;
constexpr double warm_up_s = 0.06;
/// Share of pairs before which there are windows with a call of a hidden distribution.
constexpr double hidden_call_share = 1.0 / 16;
constexpr double least_wall_s = 30, most_slower = 200;
/// Share of pairs whose windows end a call before the last one, and from how many calls on. Who
/// knew the last call could leave a kernel on the device behind all others, which has computed the
/// next call in part when it is asked. At an end that comes unforeseen that is a tail, which is
/// charged.
constexpr double short_share = 0.5;
constexpr std::size_t least_to_shorten = 4;
/// Share of windows behind which it is measured what deliveries cost, and how often at least.
constexpr double delivery_share = 1.0 / 6;
/// Where it matters how much they deviate; and how many are tried for that.
constexpr std::size_t deliveries_that_tell = 8, most_deliveries_behind = 32;
constexpr double longest_wait_for_core_s = 120;

struct recorded_pair {
  window_pair times;  ///< of a call
  pair_facts facts;
};

/// Of one request, for as long as it lives.
class noted_surroundings {
 public:
  explicit noted_surroundings(const module_timing_request& of) : of_(of) { of_.begins(); }
  ~noted_surroundings() { of_.ends(); }
  noted_surroundings(const noted_surroundings&) = delete;
  noted_surroundings& operator=(const noted_surroundings&) = delete;

 private:
  const module_timing_request& of_;
};

class module_sides final : public timed_sides, private single_windows {
 public:
  explicit module_sides(const module_timing_request& r)
      : r_(r),
        steps_(*r.steps),
        schedule_(r.protocol, r.budget_s),
        slots_(schedule_.every_call_counts() ? 1 : static_cast<std::size_t>(r.task->slots)),
        order_(r.order_seed, "order of a module's calls"),
        times_(r.protocol.statistic == aggregation::paired_log_ratio) {
    r.calls->flush_before_windows(r.protocol.flushes_l2);
  }

  module_timing_result measure();

  finding rehearse() override;
  void begin() override;
  finding pair(std::size_t list, bool candidate_first, std::optional<window_pair>& took) override;
  [[nodiscard]] std::size_t coming_state() override {
    place_->settle();
    const std::array looks{r_.calls->look(), r_.calls->look(), r_.calls->look()};
    return calm_pairs::is_shared(looks) ? 1 : 0;
  }
  [[nodiscard]] std::size_t last_state() const override { return times_.last_state(); }
  [[nodiscard]] std::size_t counted_calls() const override { return slots_; }
  [[nodiscard]] bool narrow(std::span<const process_pairs> lists) const override {
    const process_pairs net = times_.net(lists.front(), charges());
    return narrow_enough({&net, 1}, r_.limits);
  }
  [[nodiscard]] bool even(std::span<const process_pairs> lists, double budgets) const override {
    const process_pairs net = times_.net(lists.front(), charges());
    const auto e = estimate_ratio({&net, 1}, r_.limits);
    return e && is_enough(*e, budgets);
  }
  single_windows* singly() override { return this; }

 private:
  void draw() override { drawn_.push_back(r_.calls->fresh(slots_)); }
  finding window(bool candidate, std::size_t drawn, std::vector<double>& call_ns) override;
  finding compare() override { return compare(drawn_[last_drawn_]); }

  finding side(bool candidate, bool copies, std::size_t calls, device_window& took);
  std::size_t calls_of_pair() {
    const bool may_be = slots_ >= least_to_shorten && is_on(check_layer::sample);
    return slots_ - (may_be && order_.chance(short_share) ? 1 : 0);
  }
  finding pair_of_windows(std::span<const module_case> window, bool candidate_first,
                          recorded_pair& took);
  finding make(std::span<const module_case> window) {
    const step_clock step(steps_, "clock: content");
    return r_.calls->make(window);
  }
  finding compare(std::span<const module_case> window) {
    step_clock step(steps_, "clock: comparing");
    return r_.calls->compare(window, timed_call_is_wrong, &step);
  }
  finding deliver_at_times();
  finding deliver();
  void note_delivery(const device_window& took);
  finding deliver_by_reference();
  finding hidden_call();
  static bool charges() { return is_on(check_layer::charge); }
  /// Of all calls of a window.
  [[nodiscard]] double limit_s(std::size_t calls) const {
    return least_wall_s + most_slower * r_.task->baseline_ns * 1e-9 * static_cast<double>(calls);
  }

  static constexpr const char* timed_call_is_wrong =
      "a timed call is wrong, though the checks before were right";

  [[nodiscard]] bool is_paired() const {
    return r_.protocol.statistic == aggregation::paired_log_ratio;
  }
  static window_margins margins_of(const device_window& one, std::size_t calls) {
    return {one.wake_ns / static_cast<double>(calls), one.tail_ns};
  }

  const module_timing_request& r_;
  step_seconds& steps_;
  calm_core* place_ = nullptr;  ///< while it measures
  round_schedule schedule_;
  std::size_t slots_;  ///< calls of a window
  base::random_stream order_;
  module_window_times times_;
  std::vector<std::vector<module_case>> drawn_;  ///< contents of windows of one side alone
  std::size_t last_drawn_ = 0;
  bool candidates_began_ = false;  ///< all windows of the reference that count are over
  std::size_t next_hidden_ = 1;
  module_timing_result result_;
};

/// A window of one side, whose contents were made. `copies`: of the reference, its outputs are
/// copied as those of a candidate are.
finding module_sides::side(bool candidate, bool copies, std::size_t calls, device_window& took) {
  const step_clock step(steps_, "clock: windows with what stands around them");
  if (candidate) return r_.calls->candidate(calls, limit_s(calls), took);
  return r_.calls->reference(calls, copies, took);
}

finding module_sides::pair_of_windows(std::span<const module_case> window, bool candidate_first,
                                      recorded_pair& took) {
  place_->settle();
  if (auto f = make(window); !f.ok()) return f;
  const std::size_t calls = calls_of_pair();
  device_window reference, candidate;
  for (const bool is_candidate : {candidate_first, !candidate_first}) {
    // Its copy would lie where that of the candidate does.
    auto f = side(is_candidate, !candidate_first, calls, is_candidate ? candidate : reference);
    if (!f.ok()) return f;
    if (r_.after_window) r_.after_window(is_candidate, true, is_candidate ? candidate : reference);
  }
  if (auto f = compare(window.first(calls)); !f.ok()) return f;
  if (auto f = deliver_at_times(); !f.ok()) return f;
  const auto n = static_cast<double>(calls);
  took.times = {reference.answer_ns / n, candidate.answer_ns / n};
  took.facts = {candidate_first,
                calm_pairs::is_shared(reference.each.looks),
                calm_pairs::is_shared(candidate.each.looks),
                calls,
                margins_of(reference, calls),
                margins_of(candidate, calls)};
  return {};
}

finding module_sides::deliver_at_times() {
  const bool now =
      times_.deliveries() < module_window_times::least_deliveries || order_.chance(delivery_share);
  return now ? deliver() : finding{};
}

/// By both sides. Which of them the processor's caches served last is to be chance, for who comes
/// next to the pair that follows is faster by some microseconds. What comes behind the candidate
/// does not count.
finding module_sides::deliver() {
  const step_clock step(steps_, "clock: deliveries");
  device_window reference, candidate;
  if (auto f = r_.calls->delivery(slots_, reference); !f.ok()) return f;
  if (r_.after_window) r_.after_window(false, false, reference);
  note_delivery(reference);
  // Where all windows of the reference come first, none of the candidate are to be between them.
  if (schedule_.one_after_the_other()) return {};
  if (auto f = r_.calls->candidate_delivery(slots_, candidate); !f.ok()) return f;
  if (r_.after_window) r_.after_window(true, false, candidate);
  times_.candidate_delivered(candidate.tail_ns);
  return order_.chance(0.5) ? r_.calls->delivery(slots_, reference) : finding{};
}

/// One of the reference that is not behind one of the candidate.
void module_sides::note_delivery(const device_window& took) {
  times_.delivered(took.answer_ns / static_cast<double>(slots_),
                   calm_pairs::is_shared(took.each.looks));
}

/// By the reference alone, until so many count that their quartiles say something. What the
/// candidate left is in the first, which does not count.
finding module_sides::deliver_by_reference() {
  if (times_.deliveries() >= deliveries_that_tell) return {};
  const step_clock step(steps_, "clock: deliveries");
  device_window behind_candidate;
  if (auto f = r_.calls->delivery(slots_, behind_candidate); !f.ok()) return f;
  for (std::size_t tried = 0;
       times_.deliveries() < deliveries_that_tell && tried < most_deliveries_behind; ++tried) {
    device_window took;
    // Where pairs on a shared core count, deliveries on a calm one do not.
    if (!times_.on_shared_core()) place_->settle();
    if (auto f = r_.calls->delivery(slots_, took); !f.ok()) return f;
    note_delivery(took);
  }
  return {};
}

finding module_sides::rehearse() {
  recorded_pair took;
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  for (int i = 0; i < most_warm_ups; ++i) {
    if (i >= least_warm_ups && static_cast<double>(clock.now_ns() - begin) * 1e-9 > warm_up_s)
      break;
    if (auto f = pair_of_windows(r_.calls->fresh(slots_), i % 2 == 0, took); !f.ok()) return f;
  }
  return {};
}

void module_sides::begin() {
  times_.forget();
  result_.calls = 0;
}

/// Windows that do not count, in which one call has a hidden distribution: a module that is careful
/// only while it is checked cannot tell that it is.
finding module_sides::hidden_call() {
  const auto& cases = r_.task->cases;
  if (cases.size() < 2) return {};
  next_hidden_ = 1 + next_hidden_ % (cases.size() - 1);
  auto window = r_.calls->fresh_alone(slots_);
  window[order_.below(window.size())] = cases[next_hidden_];
  recorded_pair took;
  return pair_of_windows(window, order_.chance(0.5), took);
}

finding module_sides::pair(std::size_t, bool candidate_first, std::optional<window_pair>& took) {
  if (order_.chance(hidden_call_share))
    if (auto f = hidden_call(); !f.ok()) return f;
  recorded_pair both;
  if (auto f = pair_of_windows(r_.calls->fresh(slots_), candidate_first, both); !f.ok()) return f;
  took = both.times;
  times_.pair_took(both.facts);
  return {};
}

finding module_sides::window(bool candidate, std::size_t drawn, std::vector<double>& call_ns) {
  // Hidden calls come while the candidate is measured, before any window of its own.
  if (candidate && order_.chance(hidden_call_share))
    if (auto f = hidden_call(); !f.ok()) return f;
  last_drawn_ = drawn;
  place_->settle();
  // Behind a window of the candidate the reference says what is right, and copies nothing: the copy
  // would lie where that of the candidate does.
  const bool copies = !candidate && !candidates_began_;
  candidates_began_ |= candidate;
  device_window took;
  // The same contents are there for the reference behind it.
  if (candidate || !candidates_began_)
    if (auto f = make(drawn_[drawn]); !f.ok()) return f;
  if (auto f = side(candidate, copies, slots_, took); !f.ok()) return f;
  if (copies) times_.reference_took(margins_of(took, slots_));
  call_ns.assign(slots_, took.answer_ns / static_cast<double>(slots_));
  if (!candidate) return candidates_began_ ? finding{} : deliver_at_times();
  times_.window_took(drawn, margins_of(took, slots_));
  result_.calls += static_cast<std::int64_t>(slots_);
  return {};
}

module_timing_result module_sides::measure() {
  const base::steady_clock clock;
  const auto lease = core_lease::take(r_.cores.front(), longest_wait_for_core_s);
  if (!lease) {
    result_.outcome = {verdict_kind::infra_error, "", lease.error().message, std::nullopt};
    return std::move(result_);
  }
  // Throughout: to stop what makes contexts and let it go on again takes as long as a call.
  const device_quiet::hold quiet(*r_.quiet);
  const noted_surroundings noted(r_);
  const device_module_calls::only_when_asked still(*r_.calls);
  const auto [reference_pid, candidate_pid] = r_.calls->processes();
  const coming_first reference_first(reference_pid), candidate_first(candidate_pid);
  calm_core place(r_.cores, {reference_pid, candidate_pid});
  place_ = &place;
  timing_session session(*this, r_.protocol, r_.budget_s, order_, clock);
  result_.outcome = session.run();
  result_.seconds = session.seconds();
  if (result_.outcome.ok()) result_.outcome = r_.calls->look_at_guards();
  if (!result_.outcome.ok() || !times_.has_deliveries()) return std::move(result_);
  if (schedule_.one_after_the_other())
    result_.pairs = times_.net(session.times(), schedule_, charges());
  else {
    process_pairs recorded = std::move(session.times().pairs.front());
    if (is_paired()) {
      if (result_.outcome = deliver_by_reference(); !result_.outcome.ok())
        return std::move(result_);
      result_.is_hidden = times_.is_hidden(recorded);
      if (times_.deliveries() < module_window_times::least_deliveries) {
        result_.outcome = {
            verdict_kind::noisy, "",
            fmt::format("{} deliveries were measured on a core in the state of the "
                        "calls that count, {} are needed: others use it now and then",
                        times_.deliveries(), module_window_times::least_deliveries),
            std::nullopt};
        return std::move(result_);
      }
    }
    result_.pairs = times_.net(std::move(recorded), charges());
  }
  std::vector<double> refs;
  for (const window_pair& one : result_.pairs)
    refs.push_back(one.ref_ns);
  if (!refs.empty()) result_.baseline_ns = median_of(refs);
  result_.delivery_ns = times_.delivery_ns();
  result_.delivery_spread_ns = times_.delivery_spread_ns();
  result_.tail_ns = times_.forgiven_ns();
  result_.left_out = static_cast<std::int64_t>(times_.left_out());
  result_.on_shared_core = times_.on_shared_core();
  result_.calls += static_cast<std::int64_t>(times_.calls());
  if (module_window_times::is_nothing_left(result_.pairs))
    result_.outcome = {
        verdict_kind::noisy, "",
        fmt::format("a call of the reference took no longer than the {:.1f} us that are taken off "
                    "for its delivery, which varied by {:.1f} us",
                    result_.delivery_ns / 1000, result_.delivery_spread_ns / 1000),
        std::nullopt};
  return std::move(result_);
}

}  // namespace

module_timing_result time_module(const module_timing_request& request) {
  return module_sides(request).measure();
}

}  // namespace quern::env
