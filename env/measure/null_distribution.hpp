// What a kernel measures against itself: the size below which a claim says nothing, by device class
// and duration.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::env {

/// One calibration: |ln ratio| of a kernel against itself stays below `p99` in 99 of 100
/// measurements, for kernels whose call takes `call_ns`.
struct null_point {
  double call_ns = 0;
  double p99 = 0;
};

/// A table over durations. Plain value.
class null_distribution {
 public:
  /// What was measured by `tools/benchmarks/bench_eval` on a two-core machine with its other core
  /// busy; used for device classes without a calibration of their own.
  null_distribution();

  /// What was measured by `tools/benchmarks/bench_gpu` on an H200; for GPUs without a calibration
  /// of their own.
  static null_distribution of_gpus();

  /// What was measured by `tools/benchmarks/bench_modules` on a two-core machine; for modules whose
  /// calls allocate their results, on a core without a calibration of its own.
  static null_distribution of_modules();

  /// What was measured by `tools/benchmarks/bench_modules --gpu` on an H100 at 200 us and at 1 ms;
  /// the point below was not measured, and is wider. For modules on a GPU without a calibration of
  /// its own.
  static null_distribution of_modules_on_gpus();

  /// Points in any order; at least one, call_ns > 0, 0 <= p99 < 1.
  static base::expected<null_distribution> make(std::vector<null_point> points);

  /// {"quern_null": 1, "device_class": "...", "points": [{"call_ns": 100000, "p99_e9": 12000000}]}
  static base::expected<null_distribution> from_json(const base::json& value,
                                                     std::string_view device_class);
  base::json to_json(std::string_view device_class) const;

  /// Where this user keeps what was calibrated on this host for a device class (`bench_gpu self
  /// --calibrate`, `bench_eval --null-file`); empty: there is no such place.
  static std::filesystem::path file_of(std::string_view device_class);
  /// What stands in `file`, or, where that is empty, in file_of(), if there is one; nothing else.
  /// Errors name the file: it cannot be read, is no such table, or is of another class or version.
  static base::expected<std::optional<null_distribution>> calibrated(
      const std::filesystem::path& file, std::string_view device_class);

  /// P99 of |ln ratio| for a call of `call_ns`: linear in ln(call_ns) between points, constant
  /// beyond the first and the last.
  double half_width(double call_ns) const;

  /// The normal deviation that has this P99.
  double deviation(double call_ns) const { return half_width(call_ns) / 2.576; }

  std::span<const null_point> points() const { return points_; }

 private:
  std::vector<null_point> points_;
};

}  // namespace quern::env
