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

/// The least of this period and of the one before, so that a clock rate that is over is forgotten.
class least_pace {
 public:
  void note(base::nanoseconds_t took, base::nanoseconds_t at) {
    constexpr base::nanoseconds_t period_ns = 30'000'000'000;
    const auto period = at / period_ns;
    auto known = period_.load();
    if (period != known && period_.compare_exchange_strong(known, period)) {
      before_ = period == known + 1 ? now_.load() : none;
      now_ = took;
    }
    for (auto least = now_.load(); took < least && !now_.compare_exchange_weak(least, took);) {
    }
  }
  [[nodiscard]] base::nanoseconds_t ns() const { return std::min(now_.load(), before_.load()); }

 private:
  static constexpr auto none = std::numeric_limits<base::nanoseconds_t>::max();

  std::atomic<base::nanoseconds_t> period_ = -1, now_ = none, before_ = none;
};

least_pace& least() {
  static least_pace one;
  return one;
}

}  // namespace

base::nanoseconds_t core_pace_ns() {
  // The first rounds bring the loop into the core's caches.
  constexpr int first_rounds = 200, timed_rounds = 2500;
  keep_ports_busy(first_rounds);
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  keep_ports_busy(timed_rounds);
  const auto end = clock.now_ns();
  least().note(end - begin, end);
  return end - begin;
}

std::size_t shared_looks(std::span<const base::nanoseconds_t> paces) {
  constexpr double longer = 1.25;
  const double most = longer * static_cast<double>(least().ns());
  return static_cast<std::size_t>(std::ranges::count_if(
      paces, [&](base::nanoseconds_t one) { return static_cast<double>(one) > most; }));
}

}  // namespace quern::env
