// A third lane, for tests: texts that are judged by their length. docs/extending.md was followed to
// make it. Two more judge the same on GPUs, which need not be there.
#pragma once

#include <string>
#include <string_view>

#include "env/task/lane.hpp"

namespace quern::env {

extern const lane toy_lane;
extern const lane toy_gpu_lane;
extern const lane other_toy_gpu_lane;

/// Candidates are read without regard to capitals, so texts that differ in these alone are one
/// candidate. Lines count, so unlike in C++ a text with another empty line is another candidate.
std::string lower_case(std::string_view text);

}  // namespace quern::env
