// The cores on which this process measures, and how its threads and children keep off them.
#pragma once

#include <optional>

#include <sched.h>

namespace quern::base {

/// As long as it lives, this process measures on a core. Several may name the same one.
/// Thread-safe.
class measuring_core {
 public:
  explicit measuring_core(int core);
  measuring_core(measuring_core&& other) noexcept;
  measuring_core& operator=(measuring_core&& other) noexcept;
  ~measuring_core();

 private:
  int core_ = -1;  ///< -1: moved from
};

/// Of the cores that the calling thread may run on, those on which this process does not measure.
/// None: it measures on no core, or there is no other.
std::optional<cpu_set_t> cores_beside_measuring();

/// Until destroyed, by the same thread, the calling thread and what it starts stay off the cores
/// that measure when it is made. No effect if none does, if no other core is allowed, or if the
/// kernel refuses.
class off_measuring_cores {
 public:
  off_measuring_cores();
  off_measuring_cores(const off_measuring_cores&) = delete;
  off_measuring_cores& operator=(const off_measuring_cores&) = delete;
  ~off_measuring_cores();

 private:
  std::optional<cpu_set_t> before_;
};

}  // namespace quern::base
