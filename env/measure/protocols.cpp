// Measurement protocols by name.
#include "env/measure/protocols.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "env/measure/rounding.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

constexpr std::array<measure_protocol, 4> protocols{
    {paired_protocol, cuda_l1_train_protocol, cuda_l1_report_protocol, kernelbench_protocol}};

protocol_result noisy_result(std::string reason) {
  protocol_result result;
  result.reason = std::move(reason);
  return result;
}

protocol_result accepted_result(double speedup, const measure_protocol& protocol) {
  protocol_result result;
  result.accepted = true;
  result.speedup_e2 =
      protocol.rounds_toward_one
          ? conservative_e2(std::log(speedup), 0)
          : static_cast<std::int64_t>(std::clamp(std::round(100 * speedup), 1.0, 1e8));
  result.large = protocol.recheck_above_e2 > 0 && result.speedup_e2 > protocol.recheck_above_e2;
  return result;
}

base::status check_times(std::span<const window_pair> rounds) {
  for (std::size_t i = 0; i < rounds.size(); ++i)
    for (const double ns : {rounds[i].ref_ns, rounds[i].cand_ns})
      if (!std::isfinite(ns) || ns <= 0)
        return base::fail(base::errc::invalid_argument,
                          "round {}: a time of {} ns is not positive and finite", i, ns);
  return {};
}

std::vector<double> ratios_of(std::span<const window_pair> rounds) {
  std::vector<double> ratios;
  ratios.reserve(rounds.size());
  for (const auto& round : rounds)
    ratios.push_back(round.ref_ns / round.cand_ns);
  return ratios;
}

double variance_between(std::span<const double> means, bool relative) {
  if (means.size() < 2) return 0;
  const double centre = mean_of(means);
  double sum = 0;
  for (const double mean : means)
    sum += (mean - centre) * (mean - centre);
  const double variance = sum / static_cast<double>(means.size() - 1);
  return relative ? variance / (centre * centre) : variance;
}

/// Through the decimal text, as Python's `float(f"{x:.3g}")`.
double three_digits(double value) {
  const std::string text = fmt::format("{:.2e}", value);
  double result = 0;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

}  // namespace

std::span<const measure_protocol> all_protocols() {
  return protocols;
}

base::expected<measure_protocol> find_protocol(std::string_view name) {
  std::vector<std::string_view> known;
  for (const auto& one : protocols) {
    if (one.name == name) return one;
    known.push_back(one.name);
  }
  return base::fail(base::errc::not_found, "there is no measurement protocol '{}'{}; known are {}",
                    name, base::did_you_mean(name, known), fmt::join(known, ", "));
}

base::expected<protocol_result> paired_result(std::span<const process_pairs> runs,
                                              const paired_rules& rules) {
  std::vector<process_pairs> usable;
  double ref_ns = 0;
  for (const auto& run : runs) {
    QUERN_CHECK(check_times(run));
    if (run.size() < bucket_count) continue;
    std::vector<double> refs;
    for (const auto& pair : run)
      refs.push_back(pair.ref_ns);
    ref_ns += median_of(refs);
    usable.push_back(run);
  }
  if (usable.empty())
    return noisy_result(fmt::format("fewer than {} window pairs of any process", bucket_count));
  const auto lists = static_cast<double>(usable.size());
  ref_ns /= lists;
  estimate_limits limits = rules.limits;
  limits.process_deviation = rules.null.deviation(ref_ns);
  QUERN_TRY(const auto e, estimate_ratio(usable, limits));
  if (e.noisy)
    return noisy_result(fmt::format(
        "buckets differ by {:.1f} % (limit {:.1f} %), interval +-{:.1f} % (limit {:.1f} %)",
        100 * e.bucket_deviation, 100 * limits.bucket_deviation, 100 * e.half_width(),
        100 * limits.half_width));
  const bool equal = e.low <= 0 && e.high >= 0;
  protocol_result result;
  result.accepted = true;
  result.speedup_e2 =
      conservative_e2(equal ? 0 : e.mid, rules.null.half_width(ref_ns) / std::sqrt(lists));
  return result;
}

base::expected<protocol_result> bucket_median_result(std::span<const window_pair> rounds,
                                                     const measure_protocol& protocol) {
  if (protocol.buckets == 0)
    return base::fail(base::errc::invalid_argument, "protocol {} has no buckets", protocol.name);
  QUERN_CHECK(check_times(rounds));
  if (rounds.size() < protocol.buckets)
    return noisy_result(
        fmt::format("{} rounds, at least {} are needed", rounds.size(), protocol.buckets));
  const auto ratios = ratios_of(rounds);
  std::vector<double> means;
  for (const auto& [begin, end] : consecutive_ranges(ratios.size(), protocol.buckets))
    means.push_back(mean_of(std::span(ratios).subspan(begin, end - begin)));
  const double variance = variance_between(means, protocol.relative_variance);
  if (protocol.bucket_variance > 0 && variance > protocol.bucket_variance)
    return noisy_result(fmt::format("{}variance between buckets {:.4f} (limit {:.4f})",
                                    protocol.relative_variance ? "relative " : "", variance,
                                    protocol.bucket_variance));
  return accepted_result(median_of(means), protocol);
}

base::expected<protocol_result> round_mean_result(std::span<const window_pair> rounds,
                                                  const measure_protocol& protocol) {
  QUERN_CHECK(check_times(rounds));
  if (rounds.empty()) return noisy_result("no rounds");
  return accepted_result(mean_of(ratios_of(rounds)), protocol);
}

run_statistics run_statistics_of(std::span<const double> times) {
  if (times.empty()) return {};
  const double centre = mean_of(times);
  double sum = 0;
  for (const double time : times)
    sum += (time - centre) * (time - centre);
  const auto [least, largest] = std::minmax_element(times.begin(), times.end());
  return {three_digits(centre), three_digits(std::sqrt(sum / static_cast<double>(times.size()))),
          three_digits(*least), three_digits(*largest)};
}

base::expected<protocol_result> mean_ratio_result(std::span<const window_pair> runs,
                                                  const measure_protocol& protocol) {
  QUERN_CHECK(check_times(runs));
  if (runs.empty() || runs.size() < protocol.runs)
    return noisy_result(fmt::format("{} of {} timed runs", runs.size(), protocol.runs));
  std::vector<double> refs, cands;
  for (const auto& run : protocol.runs > 0 ? runs.first(protocol.runs) : runs) {
    refs.push_back(run.ref_ns);
    cands.push_back(run.cand_ns);
  }
  return accepted_result(run_statistics_of(refs).mean / run_statistics_of(cands).mean, protocol);
}

base::expected<protocol_result> result_under(const measure_protocol& protocol,
                                             std::span<const process_pairs> runs,
                                             const paired_rules& rules) {
  if (protocol.statistic == aggregation::paired_log_ratio) return paired_result(runs, rules);
  if (runs.size() > 1)
    return base::fail(base::errc::invalid_argument,
                      "protocol {} knows one pair of processes, not {}", protocol.name,
                      runs.size());
  const auto rounds = runs.empty() ? std::span<const window_pair>() : std::span(runs.front());
  switch (protocol.statistic) {
    case aggregation::median_of_bucket_means:
      return bucket_median_result(rounds, protocol);
    case aggregation::mean_of_rounds:
      return round_mean_result(rounds, protocol);
    case aggregation::ratio_of_means:
    case aggregation::paired_log_ratio:
      break;
  }
  return mean_ratio_result(rounds, protocol);
}

}  // namespace quern::env
