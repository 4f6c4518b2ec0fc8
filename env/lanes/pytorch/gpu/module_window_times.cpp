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

void module_window_times::delivered(double call_ns, bool shared) {
  deliveries_.push_back({call_ns, shared});
}

void module_window_times::candidate_delivered(double tail_ns) {
  delivery_tail_ns_ = std::max(delivery_tail_ns_, tail_ns);
}

void module_window_times::pair_took(pair_facts facts) {
  double& tail = facts.candidate.tail_ns;
  tail = std::max(tail, std::exchange(delivery_tail_ns_, 0));
  states_.saw(facts.reference_shared, facts.candidate_shared);
  facts_.push_back(facts);
}

void module_window_times::reference_took(const window_margins& beside) {
  reference_.push_back(beside);
}

void module_window_times::window_took(std::size_t drawn, const window_margins& beside) {
  if (margins_.size() <= drawn) margins_.resize(drawn + 1);
  margins_[drawn] = beside;
}

std::size_t module_window_times::last_state() const {
  if (facts_.empty()) return 0;
  const pair_facts& last = facts_.back();
  if (last.reference_shared != last.candidate_shared) return 2;
  return last.reference_shared ? 1 : 0;
}

std::size_t module_window_times::left_out() const {
  std::size_t left = 0;
  const auto by = chosen();
  for (std::size_t i = 0; i < facts_.size(); ++i)
    left += states_.counts(i, by) ? 0 : 1;
  return left;
}

std::size_t module_window_times::calls() const {
  std::size_t all = 0;
  const auto by = chosen();
  for (std::size_t i = 0; i < facts_.size(); ++i)
    all += states_.counts(i, by) ? facts_[i].calls : 0;
  return all;
}

process_pairs module_window_times::counted(const process_pairs& pairs) const {
  process_pairs some;
  const auto by = chosen();
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (states_.counts(i, by)) some.push_back(pairs[i]);
  return some;
}

std::size_t module_window_times::deliveries() const {
  const auto by = chosen();
  if (by == calm_pairs::choice::all) return deliveries_.size();
  const bool shared = by == calm_pairs::choice::shared;
  return static_cast<std::size_t>(std::ranges::count(deliveries_, shared, &delivery::shared));
}

std::vector<double> module_window_times::delivered_ns() const {
  const auto by = chosen();
  std::vector<double> all, alike;
  for (const delivery& one : deliveries_) {
    all.push_back(one.call_ns);
    if (one.shared == (by == calm_pairs::choice::shared)) alike.push_back(one.call_ns);
  }
  return by == calm_pairs::choice::all || alike.size() < least_deliveries ? all : alike;
}

double module_window_times::delivery_ns() const {
  const auto ns = delivered_ns();
  return ns.empty() ? 0 : median_of(ns);
}

double module_window_times::delivery_spread_ns() const {
  const auto ns = delivered_ns();
  if (ns.empty()) return 0;
  const auto [least, most] = std::ranges::minmax(ns);
  return most - least;
}

double module_window_times::delivery_deviation_ns() const {
  // Of a normal distribution.
  constexpr double quartiles_per_deviation = 1.349;
  const auto ns = delivered_ns();
  return (quantile_of(ns, 0.75) - quantile_of(ns, 0.25)) / quartiles_per_deviation;
}

bool module_window_times::is_hidden(const process_pairs& recorded) const {
  constexpr double share = 1.0 / 3;
  std::vector<double> cands;
  for (const window_pair& one : counted(recorded))
    cands.push_back(one.cand_ns);
  const double call_ns = std::max(least_call_ns, median_of(cands) - delivery_ns());
  const double pairs = static_cast<double>(cands.size()) / static_cast<double>(bucket_count);
  return delivery_deviation_ns() > share * call_ns * std::sqrt(pairs);
}

/// Of the pairs that count. Where the reference came first in none of them, by all in which it did.
module_window_times::both_charges module_window_times::charges() const {
  both_charges made;
  const auto saw = [&](const window_margins& beside) {
    made.wake.saw_trusted(beside.wake_ns);
    made.tail.saw_trusted(beside.tail_ns);
  };
  bool any = false;
  const auto by = chosen();
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    const pair_facts& one = facts_[i];
    if (!states_.counts(i, by)) continue;
    any |= !one.candidate_first;
    if (!one.candidate_first) saw(one.reference);
    made.wake.begin_pair();
    made.wake.end_pair(one.candidate.wake_ns);
    made.tail.begin_pair();
    made.tail.end_pair(one.candidate.tail_ns);
  }
  for (const pair_facts& one : facts_)
    if (!any && !one.candidate_first) saw(one.reference);
  for (const window_margins& one : reference_)
    saw(one);
  return made;
}

bool hidden_measurements::among_last(std::size_t lists) const {
  const std::size_t count = std::min(lists, all_.size());
  return std::find(all_.end() - static_cast<std::ptrdiff_t>(count), all_.end(), true) != all_.end();
}

process_pairs module_window_times::net(const process_pairs& pairs, bool charges) const {
  process_pairs some = counted(pairs);
  const double around = delivery_ns();
  for (window_pair& one : some) {
    one.ref_ns = std::max(least_call_ns, one.ref_ns - around);
    one.cand_ns = std::max(least_call_ns, one.cand_ns - around);
  }
  if (!charges) return some;
  const both_charges all = this->charges();
  return all.tail.charged(all.wake.charged(std::move(some), 1), 1);
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
  const both_charges seen = this->charges();
  const double forgiven_wake = seen.wake.forgiven_ns(), forgiven_tail = seen.tail.forgiven_ns();
  const auto charge = [&](const window_margins& beside) {
    return std::max(0.0, beside.wake_ns - forgiven_wake) +
           std::max(0.0, beside.tail_ns - forgiven_tail);
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
