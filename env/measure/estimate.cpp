// From paired windows to a speed-up with an interval.
#include "env/measure/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

struct run_estimate {
  double mid = 0;
  double half_width = 0;
  double pair_half_width = 0;
  double deviation = 0;
};

/// How much more uncertain the median of many normal values is than their mean.
constexpr double median_over_mean = 1.25;

std::array<double, bucket_count> bucket_means(std::span<const double> values) {
  std::array<double, bucket_count> means{};
  const auto ranges = consecutive_ranges(values.size(), bucket_count);
  for (std::size_t b = 0; b < bucket_count; ++b)
    means[b] = trimmed_mean_of(values.subspan(ranges[b].first, ranges[b].second - ranges[b].first));
  return means;
}

std::vector<double> log_ratios(std::span<const window_pair> pairs) {
  std::vector<double> logs;
  logs.reserve(pairs.size());
  for (const auto& pair : pairs)
    logs.push_back(std::log(pair.ref_ns / pair.cand_ns));
  return logs;
}

/// ratio_estimate::pair_half_width of one pair of processes. By quartiles: a few pairs that were
/// disturbed change nothing.
double pair_half_width_of(std::span<const double> logs) {
  constexpr double quartiles_per_deviation = 1.349, normal_95 = 1.96;  // of a normal distribution
  std::vector<double> means;
  for (std::size_t i = 0; i + 1 < logs.size(); i += 2)
    means.push_back((logs[i] + logs[i + 1]) / 2);
  const double deviation =
      (quantile_of(means, 0.75) - quantile_of(means, 0.25)) / quartiles_per_deviation;
  return median_over_mean * normal_95 * deviation / std::sqrt(static_cast<double>(means.size()));
}

run_estimate estimate_run(std::span<const window_pair> pairs) {
  const auto logs = log_ratios(pairs);
  const auto means = bucket_means(logs);
  run_estimate result;
  result.mid = median_of(means);
  result.deviation = winsorised_deviation(means);
  // One bucket trimmed at each end leaves bucket_count - 3 degrees of freedom.
  result.half_width =
      median_over_mean * student_95(bucket_count - 3) * trimmed_standard_error(means);
  result.pair_half_width = pair_half_width_of(logs);
  return result;
}

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

base::expected<ratio_estimate> estimate_ratio(std::span<const process_pairs> runs,
                                              const estimate_limits& limits) {
  if (runs.empty())
    return base::fail(base::errc::invalid_argument, "no window pairs to estimate from");
  std::vector<window_pair> all;
  std::vector<double> mids;
  double within = 0, within_by_pairs = 0;
  ratio_estimate result;
  for (const auto& run : runs) {
    if (run.size() < bucket_count)
      return base::fail(base::errc::invalid_argument, "{} window pairs, at least {} are needed",
                        run.size(), bucket_count);
    for (const auto& pair : run)
      if (!positive(pair.ref_ns) || !positive(pair.cand_ns))
        return base::fail(base::errc::invalid_argument,
                          "window times {} and {} ns must be positive", pair.ref_ns, pair.cand_ns);
    const auto one = estimate_run(run);
    mids.push_back(one.mid);
    within += one.half_width * one.half_width;
    within_by_pairs += one.pair_half_width * one.pair_half_width;
    result.bucket_deviation = std::max(result.bucket_deviation, one.deviation);
    all.insert(all.end(), run.begin(), run.end());
  }
  std::vector<double> refs, cands;
  for (const auto& pair : all) {
    refs.push_back(pair.ref_ns);
    cands.push_back(pair.cand_ns);
  }
  result.ref_ns = bucket_means(refs);
  result.cand_ns = bucket_means(cands);
  result.log_ratio = bucket_means(log_ratios(all));
  result.windows = all.size();

  const auto processes = static_cast<double>(runs.size());
  result.mid = mean_of(mids);
  result.window_half_width = std::sqrt(within) / processes;
  result.pair_half_width = std::sqrt(within_by_pairs) / processes;
  // What the pairs of processes show of their own spread counts only where it exceeds what is known
  // of a kernel against itself: two or three of them estimate a deviation badly.
  double between = limits.process_deviation;
  if (mids.size() > 1) between = std::max(between, winsorised_deviation(mids));
  const double process_half_width = 1.96 * between / std::sqrt(processes);
  const double half = std::hypot(result.window_half_width, process_half_width);
  result.low = result.mid - half;
  result.high = result.mid + half;
  result.noisy = result.bucket_deviation > limits.bucket_deviation || half > limits.half_width;
  return result;
}

bool narrow_enough(const ratio_estimate& e, const estimate_limits& limits) {
  return e.windows >= 2 * bucket_count && e.bucket_deviation <= limits.bucket_deviation &&
         std::max(e.window_half_width, e.pair_half_width) <= limits.narrow;
}

bool narrow_enough(std::span<const process_pairs> runs, const estimate_limits& limits) {
  const auto e = estimate_ratio(runs, limits);
  return e && narrow_enough(*e, limits);
}

bool even_enough(std::span<const process_pairs> runs, const estimate_limits& limits) {
  const auto e = estimate_ratio(runs, limits);
  return e && !e->noisy;
}

}  // namespace quern::env
