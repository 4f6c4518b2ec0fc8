// From paired windows to a speed-up with an interval: seven consecutive buckets, median, `noisy` or
// not.
//
// A window pair is one stretch of the baseline and one of the candidate, run one after the other in
// random order, so that whatever is slow for both cancels in ln(baseline / candidate). Buckets are
// consecutive in time: a drift shows as spread between them. Placement of memory varies between
// processes and not within one, so the interval has a second level over pairs of processes.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

inline constexpr std::size_t bucket_count = 7;

/// Wall nanoseconds for one call, averaged over one window of each side.
struct window_pair {
  double ref_ns = 0;
  double cand_ns = 0;
};

/// The window pairs of one pair of processes, in the order in which they were measured.
using process_pairs = std::vector<window_pair>;

/// Limits of an estimate; all are in ln(baseline / candidate), so they are relative and a large
/// speed-up is not held to a smaller error than a small one.
struct estimate_limits {
  /// Half-width at which measuring may stop early.
  double narrow = 0.006;
  /// Winsorised deviation between bucket means above which the measurement is `noisy`.
  double bucket_deviation = 0.05;
  /// Half-width of the interval above which the measurement is `noisy`.
  double half_width = 0.06;
  /// Deviation between pairs of processes of a kernel against itself (null_distribution.hpp); the
  /// interval never claims less.
  double process_deviation = 0.004;
};

struct ratio_estimate {
  /// Bucket means (trimmed, see stats.hpp) over all window pairs, in order of time.
  std::array<double, bucket_count> ref_ns{};
  std::array<double, bucket_count> cand_ns{};
  std::array<double, bucket_count> log_ratio{};
  /// 95 % interval of ln(baseline / candidate); `mid` is the median of the bucket means (with
  /// several pairs of processes the mean of their medians).
  double low = 0, mid = 0, high = 0;
  /// Half-width that the windows alone give, without the level of processes: it shrinks with time.
  double window_half_width = 0;
  /// The same by how means of two successive pairs scatter, in whose orders effects of the order
  /// cancel. With q the distance of the quartiles of m such means, 1.25 x 1.96 x (q / 1.349) /
  /// sqrt(m). It takes them for independent: disturbances that last longer make it too narrow, so
  /// the interval is not made of it. With several pairs of processes, as window_half_width.
  double pair_half_width = 0;
  /// Winsorised deviation between the bucket means of one process pair (the largest of them).
  double bucket_deviation = 0;
  std::size_t windows = 0;
  bool noisy = false;

  double half_width() const { return (high - low) / 2; }
};

/// Needs at least one pair of processes and in each at least bucket_count window pairs with
/// positive finite times; anything else is `invalid_argument`.
base::expected<ratio_estimate> estimate_ratio(std::span<const process_pairs> runs,
                                              const estimate_limits& limits = {});

/// Whether the windows of this estimate are narrow enough to stop: at least two pairs for every
/// bucket, buckets that do not differ too much, and both half-widths at most limits.narrow. Asked
/// after every pair, seven buckets would differ little by chance before the middle is that certain.
bool narrow_enough(const ratio_estimate& e, const estimate_limits& limits = {});

/// The same of the estimate of these pairs; false where there is none.
bool narrow_enough(std::span<const process_pairs> runs, const estimate_limits& limits = {});

/// Whether estimate_ratio() gives an estimate that is not noisy.
bool even_enough(std::span<const process_pairs> runs, const estimate_limits& limits = {});

}  // namespace quern::env
