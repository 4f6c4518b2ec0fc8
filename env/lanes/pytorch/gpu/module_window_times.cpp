// What calls took by what was recorded of windows.
#include "env/lanes/pytorch/gpu/module_window_times.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "env/measure/stats.hpp"

namespace quern::env {

bool is_enough(const ratio_estimate& e, double budgets) {
  constexpr double budgets_to_be_precise = 2.5, precise_half_width = 0.03;
  return !e.noisy &&
         (budgets >= budgets_to_be_precise || e.window_half_width <= precise_half_width);
}

void module_window_times::reference_took(const window_margins& beside) {
  wake_charge_.saw_trusted(beside.wake_ns);
  tail_charge_.saw_trusted(beside.tail_ns);
}

void module_window_times::candidate_delivered(double tail_ns) {
  delivery_tail_ns_ = std::max(delivery_tail_ns_, tail_ns);
}

void module_window_times::pair_took(const window_margins& beside) {
  wake_charge_.begin_pair();
  wake_charge_.end_pair(beside.wake_ns);
  tail_charge_.begin_pair();
  tail_charge_.end_pair(std::max(beside.tail_ns, std::exchange(delivery_tail_ns_, 0)));
}

void module_window_times::window_took(std::size_t drawn, const window_margins& beside) {
  if (margins_.size() <= drawn) margins_.resize(drawn + 1);
  margins_[drawn] = beside;
}

double module_window_times::delivery_ns() const {
  return deliveries_.empty() ? 0 : median_of(deliveries_);
}

double module_window_times::delivery_spread_ns() const {
  if (deliveries_.empty()) return 0;
  const auto [least, most] = std::ranges::minmax(deliveries_);
  return most - least;
}

double module_window_times::delivery_deviation_ns() const {
  // Of a normal distribution.
  constexpr double quartiles_per_deviation = 1.349;
  return (quantile_of(deliveries_, 0.75) - quantile_of(deliveries_, 0.25)) /
         quartiles_per_deviation;
}

bool module_window_times::is_hidden(const process_pairs& recorded) const {
  constexpr double share = 1.0 / 3;
  std::vector<double> cands;
  for (const window_pair& one : recorded)
    cands.push_back(one.cand_ns);
  const double call_ns = std::max(least_call_ns, median_of(cands) - median_of(deliveries_));
  const double pairs = static_cast<double>(recorded.size()) / static_cast<double>(bucket_count);
  return delivery_deviation_ns() > share * call_ns * std::sqrt(pairs);
}

bool hidden_measurements::among_last(std::size_t lists) const {
  const std::size_t count = std::min(lists, all_.size());
  return std::find(all_.end() - static_cast<std::ptrdiff_t>(count), all_.end(), true) != all_.end();
}

process_pairs module_window_times::net(process_pairs pairs, bool charges) const {
  const double around = delivery_ns();
  for (window_pair& one : pairs) {
    one.ref_ns = std::max(least_call_ns, one.ref_ns - around);
    one.cand_ns = std::max(least_call_ns, one.cand_ns - around);
  }
  if (!charges) return pairs;
  return tail_charge_.charged(wake_charge_.charged(std::move(pairs), 1), 1);
}

bool module_window_times::is_nothing_left(const process_pairs& net) {
  std::vector<double> refs;
  for (const window_pair& one : net)
    refs.push_back(one.ref_ns);
  return !refs.empty() && median_of(refs) <= least_call_ns;
}

process_pairs module_window_times::net(const timed_lists& times, const round_schedule& schedule,
                                       bool charges) const {
  const double around = delivery_ns();
  const auto charge = [&](const window_margins& beside) {
    return std::max(0.0, beside.wake_ns - wake_charge_.forgiven_ns()) +
           std::max(0.0, beside.tail_ns - tail_charge_.forgiven_ns());
  };
  const auto less = [&](double ns) { return std::max(least_call_ns, ns - around); };
  std::vector<double> refs, cands;
  for (const double ns : times.reference_ns)
    refs.push_back(less(ns));
  for (std::size_t w = times.warm_ups; w < times.candidate_ns.size(); ++w)
    for (const double ns : times.candidate_ns[w]) {
      const bool is_known = charges && w < margins_.size();
      cands.push_back(less(ns) + (is_known ? charge(margins_[w]) : 0));
    }
  return schedule.rounds(refs, cands);
}

}  // namespace quern::env
