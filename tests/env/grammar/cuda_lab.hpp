// Generated CUDA kernels run on the processor: each thread of a block is a context of its own that
// gives way at barriers and warp operations, blocks follow each other. Finds wrong arithmetic,
// missing guards (every buffer has a margin), barriers that not all reach, and races that depend
// on the order of threads; says nothing about speed. Only for texts of this project's own making.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/grammar/composition.hpp"
#include "env/grammar/interpret.hpp"
#include "env/lanes/cuda/launch/launch_plan.hpp"

namespace quern::test {

/// Kernels of one composition, compiled together.
class cuda_lab {
 public:
  /// Errors: a text without launch plan (naming the place), one that does not compile.
  static base::expected<std::unique_ptr<cuda_lab>> build(const env::composition& subject,
                                                         std::span<const std::string> sources);
  ~cuda_lab();
  cuda_lab(const cuda_lab&) = delete;
  cuda_lab& operator=(const cuda_lab&) = delete;

  struct outcome {
    std::vector<float> y;
    bool overrun = false;  ///< wrote beyond the output or the workspace, or into an input
    std::string problem;   ///< threads that wait for ever, a plan without value
  };

  /// Runs the plan of kernel `index`; output and workspace are full of NaN before. `backward`: the
  /// order in which threads get their turn.
  outcome run(std::size_t index, const env::composition_inputs& inputs, bool backward) const;

 private:
  cuda_lab() = default;
  env::composition subject_;
  std::unique_ptr<base::temp_folder> folder_;
  void* library_ = nullptr;
  std::vector<env::launch_plan> plans_;
};

}  // namespace quern::test
