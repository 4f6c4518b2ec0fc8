// What the fake NVML (fake_nvml.cpp) answers; a test sets it through the library that the code
// under test has opened.
#pragma once

#include <cstdint>

namespace quern::test {

/// Functions whose return code a test sets.
enum class nvml_call {
  init,
  by_bus_id,
  memory,
  clock,
  max_clock,
  power,
  power_limit,
  temperature,
  reasons,
  processes,
  ecc_errors,
  remapped_rows
};
/// Those that a sample asks stand first.
inline constexpr int nvml_sample_calls = 10;
inline constexpr int nvml_call_count = 12;

struct fake_process {
  std::uint32_t pid = 0;
  std::uint64_t bytes = 0;
};

struct fake_nvml_state {
  int codes[nvml_call_count] = {};
  std::uint32_t clocks[3] = {1110, 1120, 1130};  // graphics, sm, memory
  std::uint32_t max_clocks[3] = {2110, 2120, 2130};
  std::uint32_t power_mw = 301500, power_limit_mw = 700000;
  std::uint32_t temperature_c = 54;
  std::uint64_t reasons = 0;
  std::uint64_t total = 80ULL << 30, used = 3ULL << 30;
  std::uint32_t process_count = 0;
  fake_process processes[200] = {};
  /// There is always one process more than there is room for.
  bool ever_more_processes = false;
  /// The last process, if it has this number, ends after it was listed once.
  std::uint32_t ends_once_listed = 0;
  int opened = 0;  ///< init less shutdown
  int process_calls = 0;
  std::uint64_t ecc_errors = 0;
  bool rows_pending = false, rows_failed = false;
  std::uint32_t xid_count = 0;  ///< that wait to be told
  std::uint64_t xids[16] = {};
  int event_sets = 0;  ///< made less freed
  bool no_events = false;
};

}  // namespace quern::test
