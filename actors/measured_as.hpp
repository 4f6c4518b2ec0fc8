// How a run measures, in the word that jobs, verdicts and ledger keep.
#pragma once

#include <string>

#include "actors/config/run_config.hpp"

namespace quern::actors {

/// env.protocol and env.baseline together (env/measure/measure_name.hpp): "paired/1@graph".
inline std::string measured_as(const run_config& config) {
  if (config.env.baseline == "task") return config.env.protocol;
  return config.env.protocol + "@" + config.env.baseline;
}

}  // namespace quern::actors
