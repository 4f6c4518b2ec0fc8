// What help texts say of the lanes that this program has.
#pragma once

#include <string>

#include "env/task/lane.hpp"

namespace quern::tools {

/// "lane NAME", "lanes NAME, NAME"; "no lane" where none runs on such a device.
std::string lanes_on(env::device_kind device);

/// "NAME (SUMMARY), NAME (SUMMARY)".
std::string lane_summaries();

/// ".ENDING (LANGUAGE), .ENDING (LANGUAGE)".
std::string file_endings();

/// "lane NAME: PROTOCOL, PROTOCOL (on a GPU PROTOCOL, ...); lane NAME: ...".
std::string lane_protocols();

}  // namespace quern::tools
