// Elements of tensors on a device, for a verdict.
#pragma once

#include <cstdint>

#include "env/gpu/device_context.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// Element `index` of two tensors of one layout in the device's memory.
first_difference read_difference(device_context& context, const tensor_layout& layout,
                                 std::uint64_t got_at, std::uint64_t want_at, std::uint64_t index);

}  // namespace quern::env
