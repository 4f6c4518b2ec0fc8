// Compiles references, on a machine that lacks the device of their sizes.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/tensor_task/check.hpp"

namespace quern::env {

/// For check_task_quickly(): answers compile() alone. Of the options it uses the program of
/// references, core and sandbox mode. One thread; owns the process that it starts.
base::expected<std::unique_ptr<reference_oracle>> open_compiling_oracle(
    const evaluator_options& options);

}  // namespace quern::env
