// Is a tensor right? Element by element, with the task's tolerance; NaN and infinity must be
// exactly where the reference has them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "env/tensor_task/task_instance.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// The first element in memory order for which |got - want| <= atol + rtol * |want| does not hold.
/// Floating: NaN matches NaN only, an infinity matches the same infinity only. Integers: equal.
/// Both buffers hold exactly layout.bytes. Reads both once when nothing is wrong.
std::optional<first_difference> compare_tensor(const tensor_layout& layout, const tolerance& limit,
                                               std::span<const std::byte> got,
                                               std::span<const std::byte> want);

/// The first element whose bits differ (two runs of one kernel on equal inputs); any NaN equals any
/// other NaN.
std::optional<first_difference> compare_bits(const tensor_layout& layout,
                                             std::span<const std::byte> got,
                                             std::span<const std::byte> want);

/// The element `index` of a tensor of any type, as it is and as it should be: the bytes of one
/// element each.
first_difference difference_between(const tensor_layout& layout, std::size_t index,
                                    std::span<const std::byte> got,
                                    std::span<const std::byte> want);

/// "y[0,3] is 0x1.8p+0 (1.5), should be 0x1p+0 (1)".
std::string describe(const first_difference& what);

}  // namespace quern::env
