// What a run allows its candidates.
#pragma once

#include "actors/config/device_class.hpp"
#include "actors/config/run_config.hpp"
#include "env/task/suite_policy.hpp"

namespace quern::actors {

/// What the suite allows and env.host_entry does not take away: graphs and libraries are host code.
inline env::suite_policy allowed_by(const run_config& config, env::suite_policy by_suite) {
  if (lane_of(config).host_code_is_optional && !config.env.host_entry)
    by_suite.host_entry = by_suite.graphs = by_suite.library_calls = false;
  return by_suite;
}

}  // namespace quern::actors
