// KernelBench's own evaluator on one candidate, in a process of its own.
#pragma once

#include <string>

#include "base/status.hpp"
#include "env/task/task.hpp"
#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"

namespace quern::tools {

struct kernelbench_ran {
  double seconds = 0;   ///< of its function alone: what starts the process is not counted
  std::string outcome;  ///< for people
};

/// Runs eval_kernel_against_ref of the options' tree, with 5 checks and 100 timed calls and a fresh
/// folder for builds. It has no sandbox: the candidate is trusted. It is ended after `limit_s`,
/// which are its seconds then. Error: it cannot be run here.
base::expected<kernelbench_ran> evaluate_by_kernelbench(const pytorch_bench_options& o,
                                                        const env::task& subject,
                                                        const std::string& source, double limit_s);

}  // namespace quern::tools
