// Candidates with their tasks, from folders that are named on the command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/task/task.hpp"
#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"

namespace quern::tools {

struct rated_module {
  std::string name;
  std::shared_ptr<const env::task> subject;
  std::string source;
  bool has_cuda = false;    ///< inline CUDA
  bool has_triton = false;  ///< Triton kernels
  bool is_honest = false;   ///< of tests/honest/pytorch: right, whatever its verdict is
};

/// Of each folder either pairs, folders with NAME/reference.py and NAME/candidate.py, or files
/// level_<L>_problem_<P>_sample_<S>_kernel.py, whose tasks are those of the options' tree of
/// KernelBench. With `honest`, those of tests/honest/pytorch, too. In the order of their names; a
/// name that stands twice is an error. Errors name file or folder.
base::expected<std::vector<rated_module>> read_rated_modules(const pytorch_bench_options& o);

env::evaluation_request rated_request(const rated_module& one, std::uint64_t seed);

}  // namespace quern::tools
