// Turning layers of lane `cuda` off, for controls. Linked by test programs alone.
#pragma once

#include <cstddef>
#include <iterator>

#include "env/gpu/check_layer.hpp"

namespace quern::test {

inline constexpr std::size_t layer_count = std::size(env::check_layer_names);

/// In this process. Before an evaluator is opened; not thread-safe.
void turn(env::check_layer which, bool on);

}  // namespace quern::test
