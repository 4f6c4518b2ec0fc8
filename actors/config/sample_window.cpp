#include "actors/config/sample_window.hpp"

#include <fmt/format.h>

#include "actors/defaults.hpp"

namespace quern::actors {

std::int64_t samples_under_way(const run_config& config) {
  return (config.actors.staleness + 1) * config.algorithm.groups_per_step *
         config.algorithm.group_size;
}

std::string describe_window(const run_config& config) {
  const std::int64_t samples = samples_under_way(config);
  const auto at_once = static_cast<std::int64_t>(defaults::evaluation_queue);
  std::string line = fmt::format("# at most {} samples are under way", samples);
  if (samples > at_once)
    line += fmt::format("; {} of them are with the evaluators at once, the others stay generated",
                        at_once);
  return line + "\n";
}

}  // namespace quern::actors
