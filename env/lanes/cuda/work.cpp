// What a built candidate does on a device.
#include "env/lanes/cuda/work.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "env/gpu/device_peak.hpp"
#include "env/lanes/cuda/program.hpp"

namespace quern::env {
namespace {

constexpr std::int64_t warp = 32;
constexpr std::int64_t register_unit = 256;  ///< a warp's registers are given out in these
constexpr std::int64_t shared_reserve = 1024;
constexpr std::size_t most_reported_launches = 64;

std::int64_t up_to(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

kernel_resources resources_of(const built_candidate& what, const std::vector<kernel_resources>& all,
                              std::uint32_t kernel) {
  if (kernel >= what.symbols.size()) return {};
  const auto at = std::find_if(all.begin(), all.end(), [&](const kernel_resources& k) {
    return k.symbol == what.symbols[kernel];
  });
  return at == all.end() ? kernel_resources() : *at;
}

}  // namespace

multiprocessor multiprocessor_of(int major, int minor, std::int64_t max_shared_bytes) {
  multiprocessor m;
  m.shared_bytes = max_shared_bytes + shared_reserve;
  const int version = 10 * major + minor;
  if (version < 80) m.threads = 1024, m.blocks = 16, m.shared_bytes = max_shared_bytes;
  if (version > 80 && version < 90) m.threads = 1536, m.blocks = version == 89 ? 24 : 16;
  if (version >= 120) m.threads = 1536, m.blocks = 24;
  return m;
}

std::int64_t resident_blocks(const multiprocessor& on, const kernel_resources& kernel,
                             std::int64_t threads, std::int64_t dynamic_shared_bytes) {
  if (threads <= 0) return 0;
  const std::int64_t warps = up_to(threads, warp) / warp;
  std::int64_t blocks = std::min(on.blocks, on.threads / (warps * warp));
  if (kernel.registers > 0)
    blocks =
        std::min(blocks, on.registers / (warps * up_to(kernel.registers * warp, register_unit)));
  const std::int64_t shared = std::max(kernel.shared_bytes, shared_reserve) + dynamic_shared_bytes;
  if (on.shared_bytes > 0) blocks = std::min(blocks, on.shared_bytes / shared);
  return blocks;
}

work_report work_of(const built_candidate& what, const task_instance& at,
                    const quern_context_facts& device, double bandwidth) {
  work_report r;
  r.bytes = at.cost_bytes;
  r.flops = at.cost_flops;
  r.bytes_per_s = std::llround(bandwidth);
  r.flops_per_s = std::llround(usual_flops(device, at));
  r.multiprocessors = device.multiprocessors;
  const auto on = multiprocessor_of(device.major, device.minor, device.max_shared_bytes);
  r.threads = on.threads;
  if (!what.plan) return r;
  const auto workspace = what.plan->workspace(at.sizes);
  if (!workspace) return r;
  const auto steps = what.plan->steps(call_of(at, *workspace));
  if (!steps) return r;
  const auto names = what.plan->kernel_names();
  for (const auto& step : *steps) {
    const auto* l = std::get_if<kernel_launch>(&step);
    if (l == nullptr) continue;
    const auto compiled = resources_of(what, what.resources, l->kernel);
    launch_report one;
    one.kernel = l->kernel < names.size() ? names[l->kernel] : "";
    one.count = 1;
    one.blocks = std::int64_t{l->grid[0]} * l->grid[1] * l->grid[2];
    one.threads = std::int64_t{l->block[0]} * l->block[1] * l->block[2];
    one.registers = compiled.registers;
    one.shared_bytes = compiled.shared_bytes + l->shared_bytes;
    one.local_bytes = compiled.local_bytes;
    one.resident_blocks = resident_blocks(on, compiled, one.threads, l->shared_bytes);
    const auto same = std::find_if(r.launches.begin(), r.launches.end(), [&](launch_report other) {
      other.count = one.count;
      return other == one;
    });
    if (same != r.launches.end())
      ++same->count;
    else if (r.launches.size() < most_reported_launches)
      r.launches.push_back(std::move(one));
  }
  return r;
}

}  // namespace quern::env
