// Measurement protocols by name: how often and in which order both sides run, and how the recorded
// times become one speed-up. Pure: no clocks, no processes; whoever measures keeps to the
// parameters, whoever aggregates to the functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/measure/estimate.hpp"
#include "env/measure/null_distribution.hpp"

namespace quern::env {

/// Names as verdicts store them: one fixes order and arithmetic for ever, a change gets a new
/// version.
inline constexpr std::string_view protocol_paired = "paired/1";
inline constexpr std::string_view protocol_cuda_l1_train = "cuda_l1_train/1";
inline constexpr std::string_view protocol_cuda_l1_report = "cuda_l1_report/1";
inline constexpr std::string_view protocol_kernelbench = "kernelbench/1";

enum class call_order {
  random_pairs,    ///< both sides every round on the same content, in random order
  reference_first  ///< all runs of the reference, then all of the candidate
};

enum class aggregation {
  paired_log_ratio,  ///< estimate_ratio, and exactly 1.00 inside the null distribution
  median_of_bucket_means,
  mean_of_rounds,
  ratio_of_means
};

/// Parameters of a protocol. Plain value; durations in seconds of wall clock.
struct measure_protocol {
  std::string_view name;
  double seconds = 0;         ///< for one candidate, both sides; 0: not bounded by time here
  std::size_t runs = 0;       ///< timed runs of each side; 0: as many as fit into the time
  std::size_t warm_ups = 0;   ///< runs of each side before them that are not timed
  std::size_t discarded = 0;  ///< timed runs at the beginning that are not recorded
  std::size_t buckets = 0;    ///< consecutive in time; 0: none
  double bucket_variance =
      0;  ///< variance between bucket means above which it is noisy; 0: no test
  /// Variance is divided by the squared mean: an absolute bound would discard every large speed-up.
  bool relative_variance = true;
  call_order order = call_order::random_pairs;
  aggregation statistic = aggregation::paired_log_ratio;
  bool rounds_toward_one = true;  ///< to hundredths; else to the nearest
  bool flushes_l2 = false;        ///< before every timed run
  /// A claim above it needs a second look; 0: the suite says (paired/1) or nobody asks.
  std::int64_t recheck_above_e2 = 0;
};

/// paired/1, the default: docs/measuring.md. Adaptive: until the interval is narrow or the
/// suite's budget is spent.
inline constexpr measure_protocol paired_protocol{
    .name = protocol_paired, .buckets = bucket_count, .flushes_l2 = true};

/// CUDA-L1's evaluation of training samples as its paper has it
/// (arXiv 2507.14111). 3 warm-ups and no flush are the released script's.
///
/// The paper bounds the variance by 0.005 without saying of what; here it is relative, the same
/// near 1. `relative_variance = false` is the other reading.
inline constexpr measure_protocol cuda_l1_train_protocol{
    .name = protocol_cuda_l1_train,
    .seconds = 30 * 60,
    .warm_ups = 3,
    .buckets = bucket_count,
    .bucket_variance = 0.005,
    .statistic = aggregation::median_of_bucket_means,
    .recheck_above_e2 = 300};

/// CUDA-L1's evaluation for its tables (arXiv 2507.14111), as its script
/// does it (mean, no variance test, no rounding: to the nearest hundredth here).
inline constexpr measure_protocol cuda_l1_report_protocol{.name = protocol_cuda_l1_report,
                                                          .seconds = 20 * 60,
                                                          .warm_ups = 3,
                                                          .statistic = aggregation::mean_of_rounds,
                                                          .rounds_toward_one = false};

/// KernelBench's own, to compare with published numbers and for nothing else (`timing.py` of
/// its repository). Neither noise nor drift is looked at. Claims above 10x are flagged and
/// count.
///
/// Some of its versions time the reference after the candidate or on another day; the arithmetic is
/// the same.
inline constexpr measure_protocol kernelbench_protocol{.name = protocol_kernelbench,
                                                       .runs = 100,
                                                       .warm_ups = 3,
                                                       .discarded = 1,
                                                       .order = call_order::reference_first,
                                                       .statistic = aggregation::ratio_of_means,
                                                       .rounds_toward_one = false,
                                                       .flushes_l2 = true,
                                                       .recheck_above_e2 = 1000};

/// All of them, the default first.
std::span<const measure_protocol> all_protocols();

/// Error: unknown name, with the nearest known one.
base::expected<measure_protocol> find_protocol(std::string_view name);

/// What a measurement says under a protocol.
struct protocol_result {
  bool accepted = false;
  std::string reason;           ///< why it is noisy; empty when accepted
  std::int64_t speedup_e2 = 0;  ///< x 100, at least 1; 0 when noisy
  bool large = false;           ///< accepted, and above the protocol's recheck_above_e2
};

/// What paired/1 is judged by beyond its parameters.
struct paired_rules {
  null_distribution null;
  estimate_limits limits;
};

/// paired/1. Lists shorter than bucket_count are left out; none left is noisy. A claim inside its
/// own interval around 1, or inside the null distribution, is 100. Error: invalid_argument for
/// times that are not positive and finite.
base::expected<protocol_result> paired_result(std::span<const process_pairs> runs,
                                              const paired_rules& rules = {});

/// Rounds in order of time, each with the ratio reference / candidate; mean of each bucket;
/// variance (n - 1) between these means; their median. Noisy: fewer rounds than buckets, or the
/// variance above its bound. Errors: invalid_argument for such times, and for a protocol without
/// buckets.
base::expected<protocol_result> bucket_median_result(
    std::span<const window_pair> rounds, const measure_protocol& protocol = cuda_l1_train_protocol);

/// Mean of the ratios of all rounds; noisy only without any. One disturbed reference moves it.
/// Error: invalid_argument for such times.
base::expected<protocol_result> round_mean_result(
    std::span<const window_pair> rounds,
    const measure_protocol& protocol = cuda_l1_report_protocol);

/// Mean, deviation (over n), least and largest of runs, in the unit of the runs and to three
/// significant digits, as KernelBench reports them. All 0 for no runs.
struct run_statistics {
  double mean = 0, deviation = 0, least = 0, largest = 0;
};
run_statistics run_statistics_of(std::span<const double> times);

/// Mean of the reference's runs over mean of the candidate's, both to three significant digits.
/// Pair i holds run i of either side, which were not made together. Noisy: fewer than
/// protocol.runs; further ones are ignored. Error: invalid_argument for such times.
base::expected<protocol_result> mean_ratio_result(
    std::span<const window_pair> runs, const measure_protocol& protocol = kernelbench_protocol);

/// The function that belongs to `protocol.statistic`. All but paired/1 know one pair of processes:
/// invalid_argument for more than one list.
base::expected<protocol_result> result_under(const measure_protocol& protocol,
                                             std::span<const process_pairs> runs,
                                             const paired_rules& rules = {});

}  // namespace quern::env
