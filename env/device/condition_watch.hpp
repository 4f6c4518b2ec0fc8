// What the state of a device means for a measurement on it. Clocks, power and company are recorded;
// only a difference between the two sides makes a measurement void, and never the candidate wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "env/device/device_health.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// Relative difference between the median clocks of the two sides' windows above which a
/// measurement compares clocks rather than kernels. Steps of an H200's clock are 15 MHz, 0.8 %.
inline constexpr double most_clock_difference = 0.02;

/// Windows of a side that have to be looked at before their clock is known.
inline constexpr std::size_t least_clock_looks = 3;

/// Gathers what was seen of a device during one evaluation, and judges it. The rules:
///
/// - Throttled on both sides alike (heat, a power cap): recorded. The sides take turns every
///   millisecond or so and both pay, the ratio stays what it is.
/// - The sides' clocks differ by more than `most_clock_difference`: the measurement is `noisy`,
///   whichever side it favoured, and made again.
/// - Somebody else computes on the device: recorded. What that disturbs shows as unevenness of the
///   windows, which the estimate judges.
/// - Nothing is known (no NVML): nothing is recorded, and no measurement is void for it.
class condition_watch {
 public:
  /// A measurement begins: windows are judged by themselves, looks are kept. `shared` as the sample
  /// says it only where `knows_own`: the processes named were those of this machine's caller.
  void begin(const device_health_sample& before, bool knows_own);
  /// The same where nothing can be told.
  void begin();
  /// A window of one side has just ended.
  void window(bool candidate, const device_clocks& clocks);
  void end(const device_health_sample& after, bool knows_own);

  /// Why the windows since begin() compare clocks rather than kernels; empty: they do not.
  [[nodiscard]] std::optional<std::string> unfair() const;

  /// Empty when nothing was ever told.
  [[nodiscard]] std::optional<device_conditions> conditions(const std::string& bus_id) const;

 private:
  struct side_clocks {
    std::vector<double> sm_mhz, memory_mhz;
  };
  void look(const device_health_sample& sample, bool after, bool knows_own);

  std::vector<device_look> looks_;
  bool throttled_ = false;
  std::optional<bool> shared_;
  side_clocks baseline_, candidate_;
};

/// What of this may have made windows uneven, for the detail of a noisy verdict: "; the device was
/// throttled (sw_thermal_slowdown), and others used it". Empty: nothing that is known.
std::string what_disturbed(const device_conditions& seen);

}  // namespace quern::env
