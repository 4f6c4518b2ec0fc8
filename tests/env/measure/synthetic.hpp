// Synthetic window pairs with known truth and every kind of disturbance that real machines make.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.hpp"
#include "env/measure/estimate.hpp"

namespace quern::test {

struct machine {
  double speedup = 1;
  double ref_ns = 2e5;
  double jitter = 0.01;        // log-normal, independent for every window
  double drift = 0;            // both sides slow down by this share from the first to the last pair
  double step = 0;             // from the middle on the candidate alone is this share slower
  double hit_probability = 0;  // a window of either side is preempted ...
  double hit_ns_share = 1;     // ... and takes this share longer
  double process_deviation = 0;  // placement: one draw for the whole process
  std::size_t pairs = 70;
};

inline env::process_pairs measure(const machine& m, std::uint64_t seed, std::uint64_t process = 0) {
  base::random_stream random(seed, "synthetic", {process});
  const double placement = m.process_deviation * random.normal();
  env::process_pairs pairs;
  for (std::size_t i = 0; i < m.pairs; ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(m.pairs);
    auto window = [&](double ns) {
      double t = ns * std::exp(m.jitter * random.normal()) * (1 + m.drift * at);
      if (random.chance(m.hit_probability)) t *= 1 + m.hit_ns_share;
      return t;
    };
    const double ref = window(m.ref_ns);
    double cand = window(m.ref_ns / m.speedup * std::exp(placement));
    if (at >= 0.5) cand *= 1 + m.step;
    pairs.push_back({ref, cand});
  }
  return pairs;
}

}  // namespace quern::test
