// Times a module against its reference on one device.
#include "env/lanes/pytorch/gpu/device_module_timing.hpp"

#include <algorithm>
#include <vector>

#include "env/gpu/check_layer.hpp"
#include "env/judge/timing_session.hpp"
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
/// Share of pairs behind which it is measured what deliveries cost, and how often at least.
constexpr double delivery_share = 0.25;
constexpr std::size_t least_deliveries = 3;
/// What is left of a call when what stands around it is taken off, at least: below it nothing is
/// told apart from nothing.
constexpr double least_call_ns = 500;

class module_sides final : public timed_sides {
 public:
  explicit module_sides(const module_timing_request& r)
      : r_(r), order_(r.order_seed, "order of a module's calls") {}

  module_timing_result measure();

  finding rehearse() override;
  finding between() override;
  finding pair(std::size_t list, bool candidate_first, std::optional<window_pair>& took) override;
  [[nodiscard]] bool narrow(std::span<const process_pairs> lists) const override {
    return narrow_enough(net(lists.front()), r_.limits);
  }

 private:
  finding pair_of_windows(std::span<const module_case> window, bool candidate_first,
                          window_pair& took, double& tail_ns);
  finding deliver(std::size_t calls);
  finding hidden_call();
  [[nodiscard]] process_pairs net(process_pairs pairs) const;
  [[nodiscard]] double limit_s() const {
    return least_wall_s + most_slower * r_.task->baseline_ns * 1e-9;
  }

  const module_timing_request& r_;
  base::random_stream order_;
  std::vector<double> deliveries_;
  idle_charge charge_;
  std::size_t next_hidden_ = 1;
  module_timing_result result_;
};

finding module_sides::pair_of_windows(std::span<const module_case> window, bool candidate_first,
                                      window_pair& took, double& tail_ns) {
  if (auto f = r_.calls->make(window); !f.ok()) return f;
  device_window reference, candidate;
  for (const bool is_candidate : {candidate_first, !candidate_first}) {
    // Its copy would lie where that of the candidate does.
    auto f = is_candidate ? r_.calls->candidate(window.size(), limit_s(), candidate)
                          : r_.calls->reference(window.size(), !candidate_first, reference);
    if (!f.ok()) return f;
  }
  auto f = r_.calls->compare(window, "a timed call is wrong, though the checks before were right");
  if (!f.ok()) return f;
  if (deliveries_.size() < least_deliveries || order_.chance(delivery_share))
    if (f = deliver(window.size()); !f.ok()) return f;
  const auto calls = static_cast<double>(window.size());
  if (reference.tail_ns > 0) charge_.saw_trusted(reference.tail_ns);
  took = {reference.answer_ns / calls, candidate.answer_ns / calls};
  tail_ns = candidate.tail_ns;
  result_.calls += static_cast<std::int64_t>(window.size());
  return {};
}

/// By both sides, in random order: which of them the processor's caches served last is to be
/// chance, for who comes next to the pair that follows is faster by some microseconds.
finding module_sides::deliver(std::size_t calls) {
  double took_ns = 0;
  const bool candidate_last = order_.chance(0.5);
  for (const bool is_candidate : {!candidate_last, candidate_last}) {
    auto f =
        is_candidate ? r_.calls->candidate_delivery(calls) : r_.calls->delivery(calls, took_ns);
    if (!f.ok()) return f;
  }
  deliveries_.push_back(took_ns / static_cast<double>(calls));
  return {};
}

finding module_sides::rehearse() {
  window_pair took;
  double tail_ns = 0;
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  for (int i = 0; i < most_warm_ups; ++i) {
    if (i >= least_warm_ups && static_cast<double>(clock.now_ns() - begin) * 1e-9 > warm_up_s)
      break;
    if (auto f = pair_of_windows(r_.calls->fresh(), i % 2 == 0, took, tail_ns); !f.ok()) return f;
  }
  deliveries_.clear();
  charge_ = {};
  return {};
}

finding module_sides::between() {
  return order_.chance(hidden_call_share) ? hidden_call() : finding{};
}

/// Windows that do not count, in which one call has a hidden distribution: a module that is careful
/// only while it is checked cannot tell that it is.
finding module_sides::hidden_call() {
  const auto& cases = r_.task->cases;
  if (cases.size() < 2) return {};
  next_hidden_ = 1 + next_hidden_ % (cases.size() - 1);
  auto window = r_.calls->fresh();
  window[order_.below(window.size())] = cases[next_hidden_];
  window_pair took;
  double tail_ns = 0;
  return pair_of_windows(window, order_.chance(0.5), took, tail_ns);
}

finding module_sides::pair(std::size_t, bool candidate_first, std::optional<window_pair>& took) {
  window_pair times;
  double tail_ns = 0;
  if (auto f = pair_of_windows(r_.calls->fresh(), candidate_first, times, tail_ns); !f.ok())
    return f;
  took = times;
  charge_.begin_pair();
  charge_.end_pair(tail_ns);
  return {};
}

process_pairs module_sides::net(process_pairs pairs) const {
  const double around = median_of(deliveries_);
  for (window_pair& one : pairs) {
    one.ref_ns = std::max(least_call_ns, one.ref_ns - around);
    one.cand_ns = std::max(least_call_ns, one.cand_ns - around);
  }
  return is_on(check_layer::charge) ? charge_.charged(std::move(pairs), 1) : pairs;
}

module_timing_result module_sides::measure() {
  const base::steady_clock clock;
  // Throughout: to stop what makes contexts and let it go on again takes as long as a call.
  const device_quiet::hold quiet(*r_.quiet);
  timing_session session(*this, paired_protocol, r_.budget_s, order_, clock);
  result_.what = session.run();
  result_.seconds = session.seconds();
  if (result_.what.ok()) result_.what = r_.calls->look_at_guards();
  if (!result_.what.ok() || deliveries_.empty()) return std::move(result_);
  result_.pairs = net(std::move(session.times().pairs.front()));
  std::vector<double> refs;
  for (const window_pair& one : result_.pairs)
    refs.push_back(one.ref_ns);
  if (!refs.empty()) result_.baseline_ns = median_of(refs);
  result_.delivery_ns = median_of(deliveries_);
  result_.tail_ns = charge_.forgiven_ns();
  return std::move(result_);
}

}  // namespace

module_timing_result time_module(const module_timing_request& request) {
  return module_sides(request).measure();
}

}  // namespace quern::env
