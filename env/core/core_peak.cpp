// What one core can do at best.
#include "env/core/core_peak.hpp"

#include <algorithm>

#include "env/judge/machine.hpp"

namespace quern::env {
namespace {

/// Footprints are measured in powers of two.
std::int64_t footprint_class(std::int64_t bytes) {
  std::int64_t size = 4096;
  while (size < bytes && size < (8 << 20))
    size *= 2;
  return size;
}

}  // namespace

machine_peak core_peak::at(std::int64_t footprint, bool look_again) {
  const std::int64_t bytes = footprint_class(footprint);
  double& bandwidth = bandwidth_[bytes];
  if (bandwidth == 0 || look_again)
    bandwidth = std::max(bandwidth, measure_bandwidth(static_cast<std::size_t>(bytes)));
  if (flops_ == 0 || look_again) flops_ = std::max(flops_, measure_flops());
  return {bandwidth, flops_};
}

work_report work_on_core(const task_instance& at, const machine_peak& peak) {
  work_report work;
  work.bytes = at.cost_bytes;
  work.flops = at.cost_flops;
  work.bytes_per_s = static_cast<std::int64_t>(peak.bytes_per_s);
  work.flops_per_s = static_cast<std::int64_t>(peak.flops_per_s);
  return work;
}

}  // namespace quern::env
