// The evaluator's eyes on its device: NVML asked at the right moments, what it says gathered for
// the verdict (condition_watch) and for the decision whether the device may be used (quarantine).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "env/device/condition_watch.hpp"
#include "env/device/device_health.hpp"
#include "env/device/device_quarantine.hpp"

namespace quern::env {

/// Whether a process, by its id as this one sees it, is this one or descends from it. Reads the
/// parents of that process alone: all that descend from this one may be hundreds of threads.
bool is_own_process(std::uint32_t pid);

/// "752 (python3) < 700 (bench_pytorch) < 1 (init)": a process with those that it descends from,
/// six at most. Empty: it is of this process's own run, which a program of Quern above this one
/// started.
std::string other_program(std::uint32_t pid);

/// Where there is no NVML nothing is known, and everything goes on. One thread at a time.
class device_watch {
 public:
  device_watch() = default;
  /// `library`: see device_health::open.
  explicit device_watch(const std::string& bus_id,
                        const std::string& library = std::string(nvml_library));

  /// Why nothing is known; empty: it is.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] const std::string& bus_id() const { return bus_id_; }

  /// Around each measurement, and after windows within it; about 1 ms, and some ten microseconds.
  /// Twice as long where a listed process has ended. Other programs are named once, by a warning.
  /// Where a driver is slow to tell clocks, no more of them are asked for once they have cost 5 ms.
  void begin(condition_watch& seen, device_quarantine& device, base::nanoseconds_t now);
  void window(condition_watch& seen, bool candidate);
  void end(condition_watch& seen, device_quarantine& device, base::nanoseconds_t now);

  /// Asks for faults alone; the device goes into quarantine if there are, or if it is lost.
  void look_for_faults(device_quarantine& device, base::nanoseconds_t now);

  /// Device memory that is in use although no process has it; empty: processes cannot be told.
  [[nodiscard]] std::optional<std::uint64_t> unaccounted_bytes();

  /// Other programs that were seen, as other_program() has them; most_named at most.
  [[nodiscard]] const std::vector<std::string>& other_programs() const { return other_programs_; }

  /// How the device is now; empty: not known.
  [[nodiscard]] std::optional<device_health_sample> sample();

 private:
  std::optional<device_health_sample> sample(bool& knows_own, device_quarantine* device,
                                             base::nanoseconds_t now);

  /// Warns once of each other program among these processes.
  void name_others(const std::vector<std::uint32_t>& pids);

  static constexpr std::size_t most_named = 64;
  std::set<std::uint32_t> looked_at_;  ///< by name_others()
  std::vector<std::string> other_programs_;
  std::string bus_id_, problem_;
  std::optional<device_health> health_;
  base::nanoseconds_t looking_ns_ = 0;  ///< at clocks, in this measurement
};

}  // namespace quern::env
