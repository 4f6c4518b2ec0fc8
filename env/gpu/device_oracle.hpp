// Runs and times references on a device for `quern tasks check`, in the processes that evaluations
// use.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/tensor_task/check.hpp"

namespace quern::env {

/// The oracle of check_task() for a lane whose tasks have tensors on a GPU, on device options.gpu.
/// Of the options it uses programs, device and sandbox mode. Every case is computed and compared on
/// the device, on content made there, whatever its size. After a failure the next question gets a
/// process of its own. It shares the device with evaluators of this host, one question at a time.
/// One thread. Errors of opening say what is missing.
base::expected<std::unique_ptr<reference_oracle>> open_device_oracle(
    const evaluator_options& options);

}  // namespace quern::env
