// Order and number of the windows of a measurement.
#include "env/judge/timing_session.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "env/measure/round_schedule.hpp"

namespace quern::env {
namespace {

/// Where the reference comes first, a candidate is given up no sooner than when both parts together
/// took this times as long as the reference's. A candidate's part has a window of the reference
/// behind each of its own, and hidden ones among these: with one that is half as fast as the
/// reference they take 4.2 times as long, and comparing comes on top.
constexpr double least_times_reference = 5;
/// Where too few pairs were measured in the time, a candidate that is so much slower is why.
constexpr double times_as_slow = 4;

}  // namespace

bool timing_session::every_bucket_has_one() const {
  return std::ranges::all_of(times_.pairs,
                             [](const auto& list) { return list.size() >= bucket_count; });
}

finding timing_session::run() {
  times_ = {};
  if (auto f = sides_.rehearse(); !f.ok()) return f;
  sides_.begin();
  if (protocol_.statistic == aggregation::paired_log_ratio) return until_narrow();
  return round_schedule(protocol_, budget_s_).one_after_the_other() ? reference_first()
                                                                    : in_pairs();
}

finding timing_session::until_narrow() {
  const std::size_t lists = sides_.lists();
  times_.pairs.resize(lists);
  // Pairs that began with the candidate, less those that began with the other side, in each state
  // and in all. What the first window does to the second cancels where that is 0. All come first: a
  // state that goes with the order would have the same order for ever.
  constexpr int most_in_all = 2;
  struct orders {
    std::array<int, timed_sides::pair_states> lead{};
    int in_all = 0;
  };
  std::vector<orders> leads(lists);
  // Where pairs are left out, or windows take long, it ends without enough of them.
  const double patience_s = 4 * budget_s_ + 2;
  double look_s = budget_s_;
  for (std::size_t round = 0;; ++round) {
    if (every_bucket_has_one()) {
      if (seconds() >= most_budgets * budget_s_ || sides_.narrow(times_.pairs)) break;
      if (seconds() >= look_s) {
        if (sides_.even(times_.pairs, seconds() / budget_s_)) break;
        // Seldom: each look is one more chance to be called even.
        look_s = seconds() + budget_s_ / 2;
      }
    }
    if (seconds() >= patience_s) return too_slow(round);
    if (auto f = sides_.between(); !f.ok()) return f;
    const std::size_t list = round % lists;
    auto& pairs = times_.pairs[list];
    auto& [lead, in_all] = leads[list];
    const std::size_t coming = sides_.coming_state();
    const int so_far = std::abs(in_all) >= most_in_all ? in_all : lead[coming];
    const bool first = so_far == 0 ? order_.chance(0.5) : so_far < 0;
    std::optional<window_pair> took;
    if (auto f = sides_.pair(list, first, took); !f.ok()) return f;
    if (!took) continue;
    pairs.push_back(*took);
    const int more = first ? 1 : -1;
    lead[sides_.last_state()] += more;
    in_all += more;
  }
  return {};
}

finding timing_session::too_slow(std::size_t measured) const {
  if (measured >= bucket_count) return {};  // others disturbed them, or they are uneven
  std::vector<double> ratios;
  for (const process_pairs& pairs : times_.pairs)
    for (const window_pair& one : pairs)
      if (one.ref_ns > 0) ratios.push_back(one.cand_ns / one.ref_ns);
  // One pair may have met a host that stood still.
  if (ratios.size() < 2 || std::ranges::min(ratios) < times_as_slow) return {};
  return {
      verdict_kind::timeout, "time",
      fmt::format("{} pairs of windows were measured in {:.1f} s, {} are needed: a call takes "
                  "{:.0f} times as long as the reference's. Make it faster, or raise the budget",
                  measured, seconds(), bucket_count, median_of(ratios)),
      std::nullopt};
}

finding timing_session::in_pairs() {
  const round_schedule schedule(protocol_, budget_s_);
  auto& rounds = times_.pairs.emplace_back();
  for (std::size_t done = 0; schedule.warming_up(done); done += sides_.counted_calls()) {
    std::optional<window_pair> unused;
    if (auto f = sides_.pair(0, order_.chance(0.5), unused); !f.ok()) return f;
  }
  sides_.begin();
  std::size_t left_out = 0;
  while (schedule.more(seconds(), rounds.size())) {
    // Where most are left out, those that are missing are not waited for without end.
    if (seconds() >= budget_s_ && left_out > rounds.size() + bucket_count) break;
    std::optional<window_pair> took;
    if (auto f = sides_.pair(0, order_.chance(0.5), took); !f.ok()) return f;
    if (took) rounds.push_back(*took);
    left_out += took ? 0 : 1;
  }
  return {};
}

finding timing_session::reference_first() {
  single_windows* sides = sides_.singly();
  if (sides == nullptr)
    return {verdict_kind::infra_error, "",
            fmt::format("{} has the reference first, and this lane measures in pairs alone",
                        protocol_.name),
            std::nullopt};
  const round_schedule schedule(protocol_, budget_s_);
  std::vector<double> unused;
  std::size_t windows = 0;
  const double rehearsed_s = seconds();
  const auto reference = [&](std::vector<double>& call_ns) {
    sides->draw();
    return sides->window(false, windows++, call_ns);
  };
  for (std::size_t done = 0; schedule.warming_up(done) || windows == 0; done += unused.size())
    if (auto f = reference(unused); !f.ok()) return f;
  times_.warm_ups = windows;
  std::vector<double> of_window;
  while (schedule.more(seconds(), times_.reference_ns.size())) {
    if (auto f = reference(of_window); !f.ok()) return f;
    times_.reference_ns.insert(times_.reference_ns.end(), of_window.begin(), of_window.end());
  }
  const double reference_s = seconds() - rehearsed_s;
  const double give_up_s =
      std::max(schedule.longest_s(), rehearsed_s + least_times_reference * reference_s);
  times_.candidate_ns.resize(windows);
  for (std::size_t w = 0; w < windows; ++w) {
    if (const double now_s = seconds(); now_s >= give_up_s)
      return {
          verdict_kind::timeout, "time",
          fmt::format("{} of {} windows of the candidate were measured after {:.1f} s; {} gives "
                      "a measurement up at {:.1f} s. Make a call faster, or raise the budget",
                      w, windows, now_s, protocol_.name, give_up_s),
          std::nullopt};
    if (auto f = sides->window(true, w, times_.candidate_ns[w]); !f.ok()) return f;
    // What is right was overwritten by later windows: the reference once more, not timed.
    if (auto f = sides->window(false, w, unused); !f.ok()) return f;
    if (auto f = sides->compare(); !f.ok()) return f;
  }
  return {};
}

}  // namespace quern::env
