// Where a measured time stands below the roofline, and what keeps it there.
#include "env/judge/roofline.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

constexpr double near_the_roof = 0.6;
constexpr double many_launches = 0.3;
constexpr double low_occupancy = 0.25;

std::int64_t threads_of(const launch_report& l) {
  return l.blocks * l.threads;
}

const launch_report* largest_of(const work_report& work) {
  const auto at =
      std::max_element(work.launches.begin(), work.launches.end(),
                       [](const auto& a, const auto& b) { return threads_of(a) < threads_of(b); });
  return at == work.launches.end() ? nullptr : &*at;
}

void decide(roofline_place& p, const work_report& work, const launch_report* largest) {
  const auto say = [&](limiter what, std::string why) {
    p.limited_by = what;
    p.why = std::move(why);
  };
  if (p.call_ns <= 0 || (p.memory_ns <= 0 && p.compute_ns <= 0))
    return say(limiter::unknown, "there is no time, or the task states no cost");
  if (std::max(p.memory_share, p.compute_share) >= near_the_roof) {
    if (p.memory_ns >= p.compute_ns)
      return say(limiter::memory,
                 "near the bandwidth of memory: only less traffic would make it faster");
    return say(limiter::compute,
               "near the peak of arithmetic: only less of it, or narrower types, would help");
  }
  if (p.launch_share >= many_launches)
    return say(limiter::launches,
               fmt::format("{:.0f} kernels a call: fuse them, or do more in each", p.launches));
  if (largest != nullptr && largest->blocks < work.multiprocessors)
    return say(limiter::too_few_blocks,
               fmt::format("{} blocks for {} multiprocessors: split the work into more",
                           largest->blocks, work.multiprocessors));
  if (p.local_bytes > 0)
    return say(limiter::local_memory,
               fmt::format("{} bytes a thread in local memory: fewer values at once, or indices "
                           "that are known when it is compiled",
                           p.local_bytes));
  if (p.occupancy > 0 && p.occupancy < low_occupancy)
    return say(limiter::few_threads,
               fmt::format("{:.0f} % of the threads that fit, with {} registers a thread and {} "
                           "bytes of shared memory a block: less of these, or more work in flight "
                           "for each thread",
                           100 * p.occupancy, largest->registers, largest->shared_bytes));
  say(limiter::latency,
      "neither memory nor arithmetic is busy: wider and earlier loads, fewer barriers, more "
      "independent work for each thread");
}

std::string share_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

}  // namespace

std::string_view name_of(limiter what) {
  constexpr std::array<std::string_view, 8> limiter_names{
      "unknown",        "memory",       "compute",     "launches",
      "too few blocks", "local memory", "few threads", "latency"};
  return limiter_names[static_cast<std::size_t>(what)];
}

roofline_place place_on_roofline(const work_report& work, double call_ns) {
  roofline_place p;
  p.call_ns = call_ns;
  const auto bytes = static_cast<double>(work.bytes), flops = static_cast<double>(work.flops);
  const auto bandwidth = static_cast<double>(work.bytes_per_s),
             peak = static_cast<double>(work.flops_per_s);
  if (bandwidth > 0) p.memory_ns = bytes / bandwidth * 1e9;
  if (peak > 0) p.compute_ns = flops / peak * 1e9;
  if (bytes > 0) p.intensity = flops / bytes;
  if (bandwidth > 0) p.ridge = peak / bandwidth;
  for (const auto& l : work.launches) {
    p.launches += static_cast<double>(l.count);
    p.local_bytes = std::max(p.local_bytes, l.local_bytes);
  }
  if (call_ns > 0) {
    p.memory_share = std::min(1.0, p.memory_ns / call_ns);
    p.compute_share = std::min(1.0, p.compute_ns / call_ns);
    p.launch_share = std::min(1.0, p.launches * launch_cost_ns / call_ns);
  }
  const auto* largest = largest_of(work);
  if (largest != nullptr && largest->resident_blocks > 0 && work.multiprocessors > 0) {
    const auto resident = static_cast<double>(largest->resident_blocks);
    const auto most = static_cast<double>(std::max<std::int64_t>(1, work.threads));
    p.occupancy = std::min(1.0, resident * static_cast<double>(largest->threads) / most);
    p.waves = static_cast<double>(largest->blocks) /
              (resident * static_cast<double>(work.multiprocessors));
  }
  decide(p, work, largest);
  return p;
}

namespace {

std::optional<roofline_place> place_of(const verdict& v) {
  if (!v.work || !v.time || v.time->cand_ns.empty()) return std::nullopt;
  const std::vector<double> times(v.time->cand_ns.begin(), v.time->cand_ns.end());
  return place_on_roofline(*v.work, median_of(times));
}

std::string arithmetic_lines(const work_report& work, const roofline_place& p) {
  return fmt::format(
      "  arithmetic {:.3g} operations: {:.2f} us at {:.1f} T/s, {} of the time\n"
      "  intensity  {:.2f} operations a byte; arithmetic is the longer from {:.1f} on\n",
      static_cast<double>(work.flops), p.compute_ns / 1000,
      static_cast<double>(work.flops_per_s) / 1e12, share_text(p.compute_share), p.intensity,
      p.ridge);
}

/// Launches and occupancy, which only devices have.
std::string device_lines(const work_report& work, const roofline_place& p) {
  std::string text;
  if (work.launches.empty())
    text += "  launches   made by the candidate's own host code: not looked into\n";
  else
    text += fmt::format("  launches   {:.0f} a call, about {} of the time\n", p.launches,
                        share_text(p.launch_share));
  for (const auto& l : work.launches)
    text += fmt::format(
        "    {}{}: {} blocks of {} threads, {} registers, {} bytes shared, {} bytes local; {} "
        "blocks resident\n",
        l.kernel, l.count > 1 ? fmt::format(" x{}", l.count) : "", l.blocks, l.threads, l.registers,
        l.shared_bytes, l.local_bytes, l.resident_blocks);
  if (p.occupancy > 0)
    text += fmt::format("  occupancy  {} of a multiprocessor's threads, {:.1f} waves\n",
                        share_text(p.occupancy), p.waves);
  return text;
}

/// What limits code on a core, where nothing is launched.
std::string core_line(const work_report& work, const roofline_place& p) {
  if (work.flops == 0 && p.limited_by != limiter::memory)
    return "  limited by something else than memory: the task states no arithmetic\n";
  if (p.limited_by != limiter::latency)
    return fmt::format("  limited by {}: {}\n", name_of(p.limited_by), p.why);
  return "  limited by latency: neither memory nor arithmetic is busy: more independent work for "
         "each instruction, and wider ones\n";
}

}  // namespace

std::optional<double> roofline_share(const verdict& v) {
  const auto p = place_of(v);
  if (!p || p->call_ns <= 0 || (p->memory_ns <= 0 && p->compute_ns <= 0)) return std::nullopt;
  return std::max(p->memory_share, p->compute_share);
}

std::string roofline_text(const verdict& v) {
  const auto place = place_of(v);
  if (!place) return {};
  const auto& work = *v.work;
  const auto& p = *place;
  std::string text = "\nroofline\n";
  text += fmt::format("  memory     {} must move: {:.2f} us at {:.0f} GB/s, {} of the time\n",
                      base::human_bytes(work.bytes), p.memory_ns / 1000,
                      static_cast<double>(work.bytes_per_s) / 1e9, share_text(p.memory_share));
  if (work.flops > 0 || work.multiprocessors > 0) text += arithmetic_lines(work, p);
  if (work.multiprocessors == 0 && work.launches.empty()) return text + core_line(work, p);
  text += device_lines(work, p);
  return text + fmt::format("  limited by {}: {}\n", name_of(p.limited_by), p.why);
}

}  // namespace quern::env
