// A lane for tests of tasks that are Python modules. It judges texts by their lines and runs
// nothing.
#pragma once

#include "env/task/lane.hpp"

namespace quern::env {

extern const lane module_lane;

}  // namespace quern::env
