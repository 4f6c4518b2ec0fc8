// What is charged.
#include "env/gpu/window_charges.hpp"

#include <algorithm>
#include <cmath>

#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// What two clocks may differ by in one window, a call and a window.
constexpr double forgiven_once_ns = 5e3;
constexpr double late_wake_ns = 30e3;
/// In all of them: single windows of trusted processes differ by some microseconds a call.
constexpr double forgiven_ns = 500, forgiven_by_root_ns = 2500;
constexpr double forgiven_share = 0.02;
/// What the clocks leave open: what stands around a call of either side may be some percent apart,
/// and who answers for events without reading them saves what that takes. Who contradicts his
/// events by more than that pays the high end of it.
constexpr double open_ns = 1000, open_around_share = 0.03;

constexpr std::size_t enough_windows = 5;
/// What caches and lines on their way to memory may do to what stands around a call of a plan.
constexpr double plan_forgiven_ns = 20e3;
constexpr double plan_forgiven_share = 0.25;
/// Clocks of the two sides may be 2 % apart.
constexpr double plan_forgiven_around = 0.05;

/// Nothing up to what is forgiven; of what is much more hardly anything is, or lying would pay for
/// itself.
double beyond_forgiveness(double shown, double forgiven) {
  return shown > forgiven ? shown - forgiven * (forgiven / shown) : 0;
}

double claimed_by_pairs(std::span<const process_pairs> runs, const estimate_limits& limits) {
  std::vector<double> logs, calls;
  for (const auto& run : runs)
    for (const auto& pair : run) {
      logs.push_back(std::log(pair.ref_ns));
      calls.push_back(pair.cand_ns);
    }
  if (const auto e = estimate_ratio(runs, limits)) return std::exp(mean_of(logs) - e->mid);
  return claimed_by_rounds(calls);
}

}  // namespace

void window_charges::add(double events_ns, double beyond_ns) {
  clock_.push_back(events_ns + beyond_ns);
  beyond_.push_back(beyond_ns);
}

double window_charges::alone(std::size_t window, std::int64_t calls) const {
  if (gated_) return 0;
  return beyond_forgiveness(beyond_.at(window),
                            forgiven_once_ns + late_wake_ns / static_cast<double>(calls));
}

double window_charges::factor(double claimed_ns, double around_ns) const {
  if (beyond_.empty() || !(claimed_ns > 0)) return 1;
  if (gated_) {
    const double shown = beyond_.size() < enough_windows
                             ? *std::min_element(beyond_.begin(), beyond_.end())
                             : median_of(beyond_);
    const double forgiven =
        plan_forgiven_ns + plan_forgiven_share * claimed_ns + plan_forgiven_around * around_ns;
    return shown > forgiven ? 1 + shown / claimed_ns : 1;
  }
  const double root = std::sqrt(static_cast<double>(clock_.size()));
  const double forgiven =
      std::max(forgiven_ns, forgiven_by_root_ns / root) + forgiven_share * claimed_ns;
  const double unpaid = median_of(clock_) - claimed_ns;
  // Single windows may have paid for most of it already.
  const double shown = std::max(unpaid, median_of(beyond_));
  if (shown <= forgiven) return 1;
  const double open = open_ns + open_around_share * around_ns, doubtful = forgiven + open;
  const double told = std::clamp((shown - doubtful) / doubtful, 0.0, 1.0);
  return 1 + (beyond_forgiveness(unpaid, forgiven) + told * open) / claimed_ns;
}

double claimed_by_rounds(std::span<const double> call_ns) {
  if (call_ns.empty()) return 0;
  double inverse = 0;
  for (const double ns : call_ns)
    inverse += 1 / ns;
  return std::min(median_of(call_ns), static_cast<double>(call_ns.size()) / inverse);
}

std::vector<process_pairs> charged_alone(std::vector<process_pairs> runs,
                                         const window_charges& charges, std::int64_t calls) {
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (std::size_t i = 0; i < runs[r].size(); ++i)
      runs[r][i].cand_ns += charges.alone(i * runs.size() + r, calls);
  return runs;
}

std::vector<process_pairs> charged(std::vector<process_pairs> runs, const window_charges& charges,
                                   std::int64_t calls, double around_ns, bool paired,
                                   const estimate_limits& limits) {
  runs = charged_alone(std::move(runs), charges, calls);
  std::vector<double> all;
  for (const auto& run : runs)
    for (const auto& pair : run)
      all.push_back(pair.cand_ns);
  const double claimed = paired ? claimed_by_pairs(runs, limits) : claimed_by_rounds(all);
  const double factor = charges.factor(claimed, around_ns);
  for (auto& run : runs)
    for (auto& pair : run)
      pair.cand_ns *= factor;
  return runs;
}

}  // namespace quern::env
