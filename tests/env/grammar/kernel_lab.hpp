// Compiles generated kernels of this project's own making into the test process and runs them.
// Nothing that a policy wrote ever comes here: that goes through the sandbox.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/grammar/composition.hpp"
#include "env/grammar/interpret.hpp"
#include "env/task/task.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::test {

/// Kernels of one composition, compiled together as the evaluator would compile each.
class kernel_lab {
 public:
  static base::expected<std::unique_ptr<kernel_lab>> build(const env::composition& subject,
                                                           std::span<const std::string> sources);
  ~kernel_lab();
  kernel_lab(const kernel_lab&) = delete;
  kernel_lab& operator=(const kernel_lab&) = delete;

  /// The output of kernel `index`; output and workspace are full of NaN before.
  std::vector<float> run(std::size_t index, const env::composition_inputs& inputs) const;

  /// Least time of one call in microseconds over `calls` calls.
  double time_us(std::size_t index, const env::composition_inputs& inputs, int calls) const;

 private:
  kernel_lab() = default;
  void call(std::size_t index, const env::composition_inputs& inputs, float* y, void* work) const;

  env::composition subject_;
  std::unique_ptr<base::temp_folder> folder_;
  void* library_ = nullptr;
  std::vector<void*> kernels_;
  std::vector<void*> workspaces_;
};

/// Inputs of one case that a task judges.
struct lab_inputs {
  std::int64_t n = 0;
  std::int64_t m = 0;
  std::vector<float> x, w, t;
  env::composition_inputs view() const { return {n, m, x, w, t}; }
};

/// Content by address: the same arguments give the same inputs.
lab_inputs make_inputs(const env::task& of, std::int64_t n, std::int64_t m,
                       std::span<const env::distribution> kinds, std::uint64_t seed);

/// Every hidden size with every round of hidden distributions, and the timed distributions.
std::vector<lab_inputs> judged_inputs(const env::task& of, std::uint64_t seed);

/// Elements outside of the task's tolerance (NaN is).
std::size_t count_wrong(const env::task& of, std::span<const double> want,
                        std::span<const float> got);

}  // namespace quern::test
