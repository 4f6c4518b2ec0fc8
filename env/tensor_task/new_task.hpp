// `quern tasks new`: a commented task file to start from.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/task/lane.hpp"

namespace quern::env {

struct kernel_task_example {
  std::string_view rows;   ///< of the timed size
  std::string_view plain;  ///< the key `plain` with the text of such a kernel; empty: the reference
                           ///< is the baseline
};

/// Text of a complete, valid task file (a row-wise example) with a comment on every key, for
/// NAME.task.yaml of a lane of kernels. Error: a name that a task cannot have.
base::expected<std::string> new_kernel_task(std::string_view name, const lane& where,
                                            const kernel_task_example& with);

}  // namespace quern::env
