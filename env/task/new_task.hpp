// `quern tasks new`: a commented task file to start from.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/task/dtype.hpp"

namespace quern::env {

/// Text of a complete, valid task file (a row-wise example) with a comment on every key, for
/// NAME.task.yaml. Error: a name that a task cannot have.
base::expected<std::string> new_task(std::string_view name, lane where);

}  // namespace quern::env
