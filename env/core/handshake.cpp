#include "env/core/handshake.hpp"

#include <vector>

#include "env/measure/stats.hpp"

namespace quern::env {

handshake handshake_of(runner_link& link, question_limits limits) {
  constexpr int questions = 15;
  std::vector<double> walls, cpus;
  for (int i = 0; i < questions; ++i) {
    const std::int64_t cpu = link.cpu_ns();
    const auto ns = link.run(0, 0, limits);
    if (!ns) return {};
    cpus.push_back(static_cast<double>(link.cpu_ns() - cpu));
    walls.push_back(static_cast<double>(*ns));
  }
  return {median_of(walls), median_of(cpus)};
}

}  // namespace quern::env
