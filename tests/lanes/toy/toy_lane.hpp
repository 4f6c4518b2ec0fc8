// A third lane, for tests: texts that are judged by their length. docs/extending.md was followed to
// make it.
#pragma once

#include "env/task/lane.hpp"

namespace quern::env {

extern const lane toy_lane;

}  // namespace quern::env
