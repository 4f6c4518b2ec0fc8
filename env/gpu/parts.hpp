// Where the seconds of evaluations go, finer than by stage: for benchmarks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/clock.hpp"

namespace quern::env {

enum class gpu_part : std::uint8_t {
  lease,            ///< waiting for the device
  take_process,     ///< waiting for a process of the pool
  load,             ///< code or shared object
  baseline,         ///< baselines loaded and told
  prepare,          ///< memory mapped, tensors and calls told
  check_call,       ///< a check's calls by the candidate
  check_reference,  ///< and by the reference
  check_compare,    ///< their comparison
  quiet,            ///< waiting for contexts that are being made or taken down
  timed_set_up,
  timed_baseline,
  timed_candidate,
  timed_deliver,
  timed_compare,
  timed_quiet,  ///< until what makes contexts stands still, pair by pair
  leave,        ///< giving the device back
  // Beside evaluations, in threads of their own:
  pool_spawn,
  pool_wait,
  pool_context,
  pool_map,
  count
};

inline constexpr std::array<std::string_view, static_cast<std::size_t>(gpu_part::count)>
    gpu_part_names{"lease",
                   "take process",
                   "load",
                   "baseline",
                   "prepare",
                   "check: candidate",
                   "check: reference",
                   "check: compare",
                   "wait for quiet",
                   "timed: set up",
                   "timed: baseline",
                   "timed: candidate",
                   "timed: deliver",
                   "timed: compare",
                   "timed: quiet",
                   "leave",
                   "(pool: spawn)",
                   "(pool: wait)",
                   "(pool: context)",
                   "(pool: map)"};

/// Sums of all evaluations. Thread-safe.
class gpu_parts {
 public:
  void add(gpu_part part, double seconds) {
    ns_[static_cast<std::size_t>(part)] += static_cast<std::int64_t>(seconds * 1e9);
  }
  [[nodiscard]] double seconds(std::size_t part) const {
    return static_cast<double>(ns_[part].load()) * 1e-9;
  }

 private:
  std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(gpu_part::count)> ns_{};
};

/// Adds the time of a scope. `to` may be null.
class part_clock {
 public:
  part_clock(gpu_parts* to, gpu_part part) : to_(to), part_(part), start_(clock_.now_ns()) {}
  ~part_clock() {
    if (to_ != nullptr) to_->add(part_, static_cast<double>(clock_.now_ns() - start_) * 1e-9);
  }
  part_clock(const part_clock&) = delete;
  part_clock& operator=(const part_clock&) = delete;

 private:
  base::steady_clock clock_;
  gpu_parts* to_;
  gpu_part part_;
  base::nanoseconds_t start_;
};

}  // namespace quern::env
