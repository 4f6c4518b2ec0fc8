// The evaluator's end of a runner on a device: what can be asked of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "env/gpu/device_context.hpp"
#include "env/runner/gpu_protocol.hpp"
#include "env/runner/link.hpp"

namespace quern::env {

/// What a call of the device-only form does, with pointers as places in regions.
struct device_program {
  std::vector<quern_step> steps;
  std::vector<quern_parameter> parameters;
};

struct window_order {
  std::vector<quern_order> calls;
  quern_window_settings settings{};
};

/// One window as both clocks saw it.
struct window_times {
  std::vector<std::uint32_t> call_ns;  ///< by the runner's events
  base::nanoseconds_t wall_ns = 0;     ///< between order and answer, by the evaluator's clock
  /// By the runner's clock. Worth nothing where host code of a candidate shares its process.
  quern_window_clocks inside{};
};

/// A shared region as a runner has it mapped; kept by lent_memory.
struct region_mapping {
  std::uint64_t making = 0;       ///< of the region; 0: not mapped
  std::uint64_t at = 0;           ///< address that was asked for
  std::uint64_t writable_at = 0;  ///< the same where the runner writes content of inputs
};

/// Questions to one runner; the process belongs to somebody else. Thread-compatible.
class gpu_link {
 public:
  gpu_link() = default;
  explicit gpu_link(runner_link link) : link_(std::move(link)) {}

  [[nodiscard]] runner_link& raw() { return link_; }

  answered<void> open(int device, double wall_s,
                      runner::gpu_open_stage stage = runner::gpu_open_stage::all);
  /// The allocation behind `fd` (device_allocation), which stays the caller's. Hints: see
  /// quern_window_import.
  answered<void> import(std::int32_t region, int fd, std::uint64_t bytes, std::uint64_t hint = 0,
                        std::uint64_t writable_hint = 0);
  answered<void> tensors(const quern_tensors& what, std::int32_t slots);
  /// Device code in [offset, offset + bytes) of the file.
  answered<void> load_code(int fd, std::uint64_t offset, std::uint64_t bytes,
                           std::span<const std::string> kernels);
  /// Hands a shared object over and locks the process for it (gpu_lock_request). Before
  /// load_library, once in the life of a process. A failure is this host's, never the candidate's.
  answered<void> lock(int fd, bool required);
  /// Loads the shared object that `lock` handed over; whether it has workspace_bytes.
  answered<bool> load_library(double wall_s, bool loads_libraries = false);
  answered<void> program(const device_program& what);
  answered<void> call(const runner::gpu_call_request& what);
  /// The same for a reference that compiles itself meanwhile.
  answered<void> call(const runner::gpu_call_request& what, double wall_s);
  answered<std::int64_t> workspace(std::span<const std::int64_t> sizes);
  answered<void> script(const std::string& text);
  /// For `awake_s` the answer is looked for again and again (question_limits).
  answered<window_times> window(const window_order& what, double wall_s, double awake_s = 0);
  /// Reference: writes the last window's results to the outputs.
  answered<void> deliver(double wall_s);
  answered<void> drop();

  std::array<region_mapping, QUERN_REGIONS> mapped{};

 private:
  runner_link link_;
};

/// A runner and the outputs that are its own (lent_memory).
struct bound_runner {
  gpu_link* link = nullptr;
  std::size_t output_buffer = 0;
};

}  // namespace quern::env
