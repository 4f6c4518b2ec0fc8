// Whether what a candidate asks of compilers is built, on a host without a GPU.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "env/lanes/pytorch/candidate_builds.hpp"
#include "env/lanes/pytorch/candidate_kernels.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

namespace quern::tools {

struct built_parts {
  int extensions = 0, kernels = 0;  ///< kernels: files that Triton's compiler left
  std::string problem;              ///< of the candidate; empty: all was built
};

/// Owns a warm Python and a cache of its own. Thread-compatible.
class build_check {
 public:
  /// Error: what this machine lacks.
  static base::expected<std::unique_ptr<build_check>> open(env::sandbox_mode mode);

  /// Learns what the candidate asks for, and builds it for sm_90. Error: of this host.
  base::expected<built_parts> build(const honest_module& candidate);

 private:
  build_check(std::unique_ptr<env::spawner> children, env::python_zygote zygote,
              env::sandbox_mode mode)
      : children_(std::move(children)), zygote_(std::move(zygote)), recorder_(mode) {}
  base::expected<const env::module_sheet*> sheet_of(const honest_module& candidate);
  base::status build_extensions(const honest_module& candidate, built_parts& into);
  base::status build_kernels(const honest_module& candidate, built_parts& into);

  std::unique_ptr<env::spawner> children_;
  env::python_zygote zygote_;
  env::candidate_builds builds_{*children_, {}};
  env::recording_python recorder_;
  env::candidate_kernels kernels_{*children_, recorder_, {}};
  std::map<const env::task*, env::module_sheet> sheets_;
};

}  // namespace quern::tools
