// Windows of calls that are timed.
#include "env/gpu/timed_windows.hpp"

#include <algorithm>
#include <cmath>

#include <sched.h>

namespace quern::env {
namespace {

/// Calls with a hidden distribution among the timed ones: nothing tells a kernel that it is being
/// checked. Their outputs are compared, their times do not count, since what content costs is
/// another thing for either side.
constexpr double hidden_share = 0.125;
/// The same for calls with some elements of another distribution (order_maker::plant). Times of
/// those with single ones count, so there may be many of them.
constexpr double planted_share = 0.45, stretches_of_planted = 0.27;

}  // namespace

quern_window_settings timed_window_settings(const device_context& context) {
  return {2 * context.facts().l2_bytes, timed_gate_ns};
}

std::int64_t calls_per_gpu_window(double call_ns, double wanted_ns, std::uint64_t bytes_per_call,
                                  std::uint64_t memory_bytes) {
  const double wanted = std::ceil(wanted_ns / std::max(1.0, call_ns));
  const double fitting =
      std::floor(static_cast<double>(memory_bytes) /
                 static_cast<double>(std::max<std::uint64_t>(1, bytes_per_call)));
  return static_cast<std::int64_t>(
      std::clamp(std::min(wanted, fitting), 1.0, static_cast<double>(runner::max_window_calls)));
}

double awake_for_windows_s() {
  // Windows of 2 ms; longer ones do not notice how late a thread wakes.
  constexpr double awake_s = 0.02;
  constexpr int enough_processors = 4;
  static const double result = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < enough_processors
               ? 0.0
               : awake_s;
  }();
  return result;
}

window_order wake_up_order() {
  window_order order;
  order.settings.gate_timeout_ns = timed_gate_ns;
  return order;
}

std::vector<quern_order> draw_timed_calls(order_maker& orders, base::random_stream& turns,
                                          const device_instance& of, std::int64_t slots) {
  std::vector<quern_order> calls;
  const auto hidden = of.rounds.size() - 1;
  const auto surely_timed =
      static_cast<std::int64_t>(turns.below(static_cast<std::uint64_t>(slots)));
  for (std::int64_t s = 0; s < slots; ++s) {
    const bool now = hidden > 0 && s != surely_timed && turns.chance(hidden_share);
    const auto round = now ? static_cast<std::int32_t>(1 + turns.below(hidden)) : 0;
    calls.push_back(orders.fresh(round, static_cast<std::int32_t>(s)));
    if (s != surely_timed && turns.chance(planted_share))
      orders.plant(calls.back(), of, stretches_of_planted);
  }
  return calls;
}

bool claims_no_time(const window_times& times) {
  return std::ranges::any_of(times.call_ns, [](std::uint32_t ns) { return ns == 0; });
}

}  // namespace quern::env
