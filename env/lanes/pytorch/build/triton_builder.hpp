// Compiles the Triton kernels that candidates launch, in the sandbox, ahead of their run and
// without a GPU.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "env/build/compile_result.hpp"
#include "env/lanes/pytorch/build/triton_kernel.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

struct triton_limits : compile_limits {
  triton_limits() {
    wall_s = 120;
    memory_bytes = std::int64_t{4} << 30;
    file_bytes = 32 << 20;
  }
};

struct triton_options {
  std::filesystem::path cache_dir = {};  ///< kernels and launchers; made when missing
  std::int64_t cache_bytes = std::int64_t{1} << 30;
  std::filesystem::path python = {};  ///< empty: find_python_torch() looks for one
  triton_limits limits = {};
};

/// `artefact` is read by read_triton_artefact().
struct triton_result : compile_result {
  std::filesystem::path launcher;  ///< a Python module that launches kernels of this signature
  bool repaired = false;           ///< the cache had an entry whose bytes were changed
  double core_s = 0;
};

/// Thread-safe; as many builds side by side as there are callers, equal kernels once. `children`
/// outlives it.
class triton_builder {
 public:
  /// Finds Python's torch, the Triton beside it, and g++. Errors: not_found, unavailable.
  static base::expected<std::unique_ptr<triton_builder>> create(spawner& children,
                                                                triton_options options);
  ~triton_builder();

  /// Machine code for sm_90, with the launcher of its signature. kind::error: Triton or ptxas
  /// refuses it, or it needs more shared memory than the device has; `text` says which. Errors are
  /// of this host.
  base::expected<triton_result> build(const triton_kernel& kernel);

  [[nodiscard]] base::hash128 key_of(const triton_kernel& kernel) const;
  [[nodiscard]] const python_torch& python() const;
  /// The folder of triton_recorder.py.
  [[nodiscard]] const std::string& scripts() const;

  struct state;

 private:
  explicit triton_builder(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
