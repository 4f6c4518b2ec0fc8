// Arithmetic whose time is that of the core alone.
#include "env/judge/core_pace.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace quern::env {
namespace {

/// Eight sums that do not wait for each other: more than a core adds in a cycle, so its width is
/// what they wait for. The compiler is told that each is used, or it would compute the last values.
[[gnu::noinline]] void keep_ports_busy(int rounds) {
  std::uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  for (int i = 0; i < rounds; ++i) {
    ++a, ++b, ++c, ++d, ++e, ++f, ++g, ++h;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
  }
}

std::atomic<base::nanoseconds_t> least_seen = std::numeric_limits<base::nanoseconds_t>::max();

}  // namespace

base::nanoseconds_t core_pace_ns() {
  // The first rounds bring the loop into the core's caches.
  constexpr int first_rounds = 200, timed_rounds = 2500;
  keep_ports_busy(first_rounds);
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  keep_ports_busy(timed_rounds);
  const auto took = clock.now_ns() - begin;
  for (auto least = least_seen.load();
       took < least && !least_seen.compare_exchange_weak(least, took);) {
  }
  return took;
}

double shared_part(std::span<const base::nanoseconds_t> paces) {
  constexpr double longer = 1.25;
  if (paces.empty()) return 0;
  const double most = longer * static_cast<double>(least_seen.load());
  const auto shared = std::ranges::count_if(
      paces, [&](base::nanoseconds_t one) { return static_cast<double>(one) > most; });
  return static_cast<double>(shared) / static_cast<double>(paces.size());
}

}  // namespace quern::env
