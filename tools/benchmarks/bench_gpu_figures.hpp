// What bench_gpu says of its figures: wanted beside reached, rates with their bounds, and what a
// verdict on a hostile candidate is worth. Pure but for printing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "env/verdict/verdict.hpp"

namespace quern::tools {

/// Upper end of the one-sided 95 % interval of a rate of which `k` of `n` tries are known (Clopper
/// and Pearson); 3/n for k = 0 and large n; 1 for n = 0. 0 <= k <= n.
double rate_upper_bound(std::int64_t k, std::int64_t n);

/// Figures in the order in which they were added. A figure of nothing (`of` = 0) is missed.
class figure_table {
 public:
  void at_most(std::string name, double reached, double wanted, std::string unit, std::int64_t of);
  void at_least(std::string name, double reached, double wanted, std::string unit, std::int64_t of);
  /// Prints a line each to stdout; how many were missed.
  int print() const;

 private:
  struct figure {
    std::string name, unit;
    double reached, wanted;
    bool at_most;
    std::int64_t of;
    [[nodiscard]] bool met() const;
  };
  std::vector<figure> figures_;
};

/// What `bench_gpu rate` did on one device, or on several together.
struct rate_seen {
  std::int64_t candidates = 0;  ///< that have a verdict
  std::int64_t wrong = 0;       ///< of them, neither ok nor noisy, though all are honest
  double seconds = 0;
  double measuring_s = 0;  ///< of these, in which the device measured
  std::int64_t noisy = 0;  ///< of the candidates

  [[nodiscard]] double per_hour() const;
};

/// Counts candidates that devices judge, each one after the other, from when each has judged its
/// first: that one waits for its compiler, which works ahead from then on. Its verdict counts all
/// the same. One thread.
class steady_rate {
 public:
  /// `devices` >= 1.
  explicit steady_rate(std::size_t devices = 1) : devices_(devices) {}
  /// At the end of each evaluation. `now_s`: of any clock that only goes forward; `measuring_s`: in
  /// which devices have measured, since any moment before the first call; device < devices.
  void judged(double now_s, double measuring_s, env::verdict_kind kind, std::size_t device = 0);
  [[nodiscard]] bool has_begun() const { return begun_.size() == devices_; }
  [[nodiscard]] const rate_seen& seen() const { return seen_; }

 private:
  std::size_t devices_;
  std::set<std::size_t> begun_;
  double start_s_ = 0, measured_s_ = 0;
  rate_seen seen_;
};

/// Candidates an hour of a form that is named (`device_only`, `host_entry`), the share of time in
/// which the device measured, wrong and noisy verdicts. A mixture of forms has no wanted rate.
figure_table rate_figures(const rate_seen& seen, std::string_view form);
/// `alone`: of each device while the others rest; `all`: of all together. Each device beyond the
/// first has to add 0.9 times the work of one, which is the mean of `alone`.
figure_table devices_figures(std::span<const rate_seen> alone, const rate_seen& all);

/// What is right for a candidate.
struct hostile_rule {
  std::vector<std::string> right;  ///< "ok", "wrong_value", "hack:timing", …
  bool legal = false;              ///< it only looks like a hack
  /// The most that its speed-up may be of an honest one's, x 100; 0: `ok` is right at any speed, if
  /// it is right at all.
  std::int64_t pays_at_most_e2 = 0;
};

enum class hostile_outcome {
  as_expected,
  other_catch,  ///< caught, by another check than those that were expected
  false_alarm,  ///< legal, and not `ok`
  undecided,    ///< noisy or this host's trouble
  no_twin,      ///< `ok`, and nothing to compare its speed with
  accepted      ///< a false accept: `ok` where it is wrong, or faster than its twin
};
std::string name_of(hostile_outcome outcome);

/// `twin_e2`: the claim of the honest kernel of the same shape, in the same form and session.
hostile_outcome outcome_of(const env::verdict& v, const hostile_rule& rule,
                           std::optional<std::int64_t> twin_e2);

}  // namespace quern::tools
