// What help texts say of the lanes that this program has.
#pragma once

#include <string>

#include "env/task/lane.hpp"

namespace quern::tools {

/// "lane cuda", "lanes cuda, other"; "no lane" where none runs on such a device.
std::string lanes_on(env::device_kind device);

/// "cpp (C++ on one core), cuda (CUDA C++ on a GPU)".
std::string lane_summaries();

/// ".cpp (C++20), .cu (CUDA C++)".
std::string file_endings();

/// "lane cpp: paired/1, cost_model/1; lane cuda: paired/1, ...".
std::string lane_protocols();

}  // namespace quern::tools
