// What a built candidate does on a device, for the explanation of its verdict: launches, what each
// kernel was compiled to, how much of it fits.
#pragma once

#include "env/device/context_part.h"
#include "env/lanes/cuda/build.hpp"
#include "env/lanes/cuda/build/cubin.hpp"
#include "env/task/task.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// What a multiprocessor has for the blocks that are resident on it.
struct multiprocessor {
  std::int64_t threads = 2048, blocks = 32, registers = 65536, shared_bytes = 0;
};

/// By compute capability, as CUDA's programming guide has it; unknown ones are taken to be as the
/// nearest older one. `max_shared_bytes`: of a block, by the driver.
multiprocessor multiprocessor_of(int major, int minor, std::int64_t max_shared_bytes);

/// Blocks of `threads` threads that are resident on one multiprocessor; 0: none fits.
std::int64_t resident_blocks(const multiprocessor& on, const kernel_resources& kernel,
                             std::int64_t threads, std::int64_t dynamic_shared_bytes);

/// The work of one call: launches of the same kernel with the same shape are one entry. Host-entry
/// form, or a plan that cannot be carried out: no launches. `bandwidth` in bytes a second, 0 where
/// it is not known.
work_report work_of(const built_candidate& what, const task_instance& at,
                    const quern_context_facts& device, double bandwidth);

}  // namespace quern::env
