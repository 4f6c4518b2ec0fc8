// Which devices of an evaluator host a run can use: those of its lane and class.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/decide/dispatcher.hpp"

namespace quern::actors {

/// Their numbers, in the order offered.
std::vector<std::int64_t> usable_devices(const host_offer& offer, std::string_view lane,
                                         std::string_view device_class);

/// "CLASS (lanes NAME, NAME), ...": what there is, each once.
std::string classes_text(const host_offer& offer);

}  // namespace quern::actors
