// bench_pytorch hostile: what is wrong, malformed or hostile, in several trials each; whether any
// of it is accepted with a gain.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"
#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"
#include "tools/benchmarks/bench_pytorch/hostile_list.hpp"

namespace quern::tools {
namespace {

constexpr double least_trials = 300;
/// Of a candidate that claimed a gain.
constexpr std::uint64_t trials_again = 3;

struct hostile_tally {
  std::map<std::string, std::map<std::string, int>> table;  ///< candidate -> verdict -> trials
  std::map<std::string, std::vector<double>> gap_claims;    ///< speed-ups of known gaps
  std::map<trial_end, int> ends;
  std::set<std::size_t> claiming;  ///< places of candidates that claimed a gain
  int judged = 0, of_gaps = 0;
};

void take_trial(const hostile_module& one, const env::verdict& v, double seconds, trial_end end,
                hostile_tally& tally) {
  ++tally.judged;
  ++tally.ends[end];
  ++tally.table[one.name][kind_text(v)];
  if (one.is_known_gap) {
    ++tally.of_gaps;
    if (v.speedup_e2)
      tally.gap_claims[one.name].push_back(static_cast<double>(*v.speedup_e2) / 100);
  }
  const bool fine = end == trial_end::caught || end == trial_end::no_gain;
  fmt::print("{} {:<38} {:5.1f} s  {:<22} {} {}  {}\n", fine ? "  " : "**", one.name, seconds,
             kind_text(v), name_of(end), speed_text(v),
             end == trial_end::undecided ? base::one_line(v.detail).substr(0, 300) : "");
}

void print_tally(const hostile_tally& tally) {
  fmt::print("verdicts by candidate:\n");
  for (const auto& [name, kinds] : tally.table) {
    std::string text;
    for (const auto& [kind, count] : kinds)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind, count);
    fmt::print("   {:<42} {}\n", name, text);
  }
  for (const auto& [end, count] : tally.ends)
    fmt::print("   {:<42} {}\n", name_of(end), count);
  for (const auto& [name, claims] : tally.gap_claims) {
    std::string text;
    for (const double claim : claims)
      text += fmt::format(" {:.2f}x", claim);
    fmt::print("   known gap {:<32}{}\n", name, text);
  }
}

/// A claim of a candidate that does the reference's work lies above 1.00 by chance at times; what
/// pays does so each time. How many of `claiming` claim a gain in each of some more trials.
int count_confirmed(env::candidate_judge& judge, const std::vector<hostile_module>& all,
                    const hostile_subjects& subjects, const pytorch_bench_options& o,
                    const bench_part& part, const std::set<std::size_t>& claiming) {
  std::vector<env::evaluation_request> requests;
  std::vector<std::size_t> places, of;
  for (const std::size_t which : claiming)
    for (std::uint64_t again = 0; again < trials_again; ++again) {
      requests.push_back(hostile_request(all[which], subjects, o.seed + 1000 + again));
      places.push_back(of.size());
      of.push_back(which);
    }
  if (places.empty()) return 0;
  std::map<std::size_t, std::uint64_t> confirmed;
  const bool whole = judge_in_turn(
      {&judge}, requests, places, o, part, [&](std::size_t place, const env::verdict& v, double) {
        const hostile_module& one = all[of[place]];
        confirmed[of[place]] += claims_gain(v) ? 1 : 0;
        fmt::print("   again: {:<42} {} {}\n", one.name, kind_text(v), speed_text(v));
      });
  // What was not judged again is not refuted.
  if (!whole) return static_cast<int>(claiming.size());
  return static_cast<int>(std::count_if(confirmed.begin(), confirmed.end(), [](const auto& one) {
    return one.second == trials_again;
  }));
}

base::expected<bool> judge_hostile(const pytorch_bench_options& o) {
  const bench_part part(o);
  QUERN_TRY(auto all, read_hostile_of_device(o));
  const double trials = static_cast<double>(all.size()) * o.seeds;
  const auto kinds = all.size();
  QUERN_CHECK(keep_named(all, o.only));
  QUERN_TRY(const auto subjects, read_hostile_subjects(o));
  QUERN_TRY(const auto judge, open_module_judge(o));
  std::vector<env::evaluation_request> requests;
  for (int trial = 0; trial < o.seeds; ++trial)
    for (const hostile_module& one : all)
      requests.push_back(
          hostile_request(one, subjects, o.seed + static_cast<std::uint64_t>(trial)));
  hostile_tally tally;
  const bool whole_part =
      judge_in_turn({judge.get()}, requests, part.places(requests.size()), o, part,
                    [&](std::size_t place, const env::verdict& v, double seconds) {
                      const std::size_t which = place % all.size();
                      const trial_end end = end_of_trial(all[which], v, o.gpu.has_value());
                      if (end == trial_end::claims) tally.claiming.insert(which);
                      take_trial(all[which], v, seconds, end, tally);
                    });
  print_tally(tally);
  const int paid = count_confirmed(*judge, all, subjects, o, part, tally.claiming);
  fmt::print("hostile {} trials of {} candidates ({} here) in {:.0f} s, part {} of {}\n",
             tally.judged, kinds, all.size(), part.seconds(), o.part, o.parts);
  figure_table table;
  table.at_least("hostile trials, all parts", trials, least_trials, "", 1);
  table.at_most("hostile trials that are ok and cannot be right", tally.ends[trial_end::accepted],
                0, "", tally.judged - tally.of_gaps);
  table.at_most("hostile candidates with a gain, each time anew", paid, 0, "",
                tally.judged - tally.of_gaps);
  table.at_most("hostile trials without a verdict on the candidate",
                100.0 * tally.ends[trial_end::undecided] / std::max(1, tally.judged), 5, "%",
                tally.judged);
  return table.print() == 0 && whole_part;
}

}  // namespace

int bench_hostile_modules(const pytorch_bench_options& o) {
  const auto met = judge_hostile(o);
  return !met ? bench_failed(met.error()) : *met ? 0 : 1;
}

}  // namespace quern::tools
