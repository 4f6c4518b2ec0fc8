// The evaluator's side of `quern-torch reference`: a warm LibTorch process that forks a sandboxed
// child for each task.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/children.hpp"
#include "base/status.hpp"
#include "env/runner/arena.hpp"
#include "env/runner/link.hpp"
#include "env/runner/warm_process.hpp"
#include "env/sandbox/layer.hpp"
#include "env/sandbox/probe.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// Of a reference's process.
inline constexpr std::int64_t reference_memory_bytes = std::int64_t{2} << 30;

namespace runner {

/// To the warm parent, with the runner's end of a socket pair; the answer is fork_reply.
struct fork_request {
  std::int64_t memory_bytes = 0;
  std::int32_t core = -1;
  std::uint32_t sandbox_required = 1;
};

struct fork_reply {
  std::int32_t pid = -1;  ///< -1: fork failed
  std::int32_t error = 0;
};

}  // namespace runner

/// One forked child that holds one compiled reference. Ends with this object.
class reference_runner {
 public:
  reference_runner(reference_runner&&) = default;
  reference_runner& operator=(reference_runner&&) = default;

  [[nodiscard]] runner_link& link() { return link_; }
  [[nodiscard]] layer_set layers() const { return layers_; }

  /// Outputs of the reference on these inputs, in file order. `in_f64`: floating inputs are widened
  /// first and floating outputs come back as f64. Errors: invalid_argument when the reference
  /// itself fails (wrong shape, wrong type, an operator that refuses), unavailable when the process
  /// is gone.
  base::expected<std::vector<std::vector<std::byte>>> run(
      const task_instance& instance, std::span<const std::vector<std::byte>> inputs, bool in_f64);

 private:
  friend class reference_service;
  reference_runner(base::killed_at_end process, runner_link link, layer_set layers)
      : process_(std::move(process)), link_(std::move(link)), layers_(layers) {}
  base::killed_at_end process_;
  runner_link link_;
  layer_set layers_;
};

/// Starts and owns the warm parent. Thread-compatible.
class reference_service {
 public:
  /// Starts `program reference` and waits until LibTorch is warm (a second or two).
  static base::expected<std::unique_ptr<reference_service>> start(
      const std::filesystem::path& program, sandbox_mode mode);
  /// Forks a child on `core` (-1: any) and compiles the text in it. invalid_argument: the text does
  /// not compile (the message is the compiler's); unavailable: the service or the child is gone.
  base::expected<reference_runner> open(const std::string& torchscript, int core,
                                        std::int64_t memory_bytes = reference_memory_bytes);

  /// Version text of LibTorch, as the parent reported it.
  [[nodiscard]] const std::string& version() const { return parent_.hello(); }

 private:
  explicit reference_service(warm_process parent) : parent_(std::move(parent)) {}
  warm_process parent_;
  bool required_ = true;
};

}  // namespace quern::env
