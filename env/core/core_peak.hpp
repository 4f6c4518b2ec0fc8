// What one core can do at best: for the roofline floor below which no time is believed.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "env/tensor_task/check.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// Remembers the best that was ever seen on this machine: a busy moment makes a core look slow, and
/// a floor that is too high would accuse an honest candidate. One thread.
class core_peak {
 public:
  /// Bandwidth at this footprint (bytes of a call, measured in powers of two up to 8 MiB), and
  /// arithmetic. `look_again`: measures once more, some milliseconds, before somebody is accused.
  machine_peak at(std::int64_t footprint, bool look_again);

 private:
  std::unordered_map<std::int64_t, double> bandwidth_;
  double flops_ = 0;
};

/// What one call has to do at least and what the core can do, for the roofline of a verdict. No
/// launches and multiprocessors: those are of GPUs.
work_report work_on_core(const task_instance& at, const machine_peak& peak);

}  // namespace quern::env
