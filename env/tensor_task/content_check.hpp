// What fill_input and refresh_input refuse alike.
#pragma once

#include <cstddef>

#include "base/status.hpp"
#include "env/tensor_task/distribution.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// Refuses a buffer of another size than the layout's, a distribution that the type does not have,
/// and an integer layout without `below`.
base::status check_content(const tensor_layout& layout, distribution kind, std::size_t bytes);

}  // namespace quern::env
