// Content of calls, made by a reference's own get_inputs in a process of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/core/core_task.hpp"
#include "env/lanes/pytorch/process/python_child.hpp"

namespace quern::env {

/// Makes content by seeds that only the evaluator knows. The process is a reference's, loaded and
/// described; its model is never timed. Thread-compatible.
class module_content final : public timed_content_maker {
 public:
  /// `key`: secret. `instance`: of its sheet; outlives this object.
  module_content(python_child process, const task_instance& instance, std::uint64_t key)
      : process_(std::move(process)), instance_(instance), key_(key) {}

  base::status fill(std::uint64_t first, const tensor_arena& inputs) override;
  /// Content of one call in memory of its own. `family`: nominal, as get_inputs gives it, or one of
  /// module_families.
  base::expected<std::vector<tensor_bytes>> draw(std::uint64_t call, std::string_view family);

  [[nodiscard]] python_child& process() { return process_; }

 private:
  /// Gives the process memory for so many calls, unless it has it.
  base::status open(std::int64_t slots);
  [[nodiscard]] std::uint64_t seed_of(std::uint64_t call) const;

  python_child process_;
  const task_instance& instance_;
  std::uint64_t key_;
  std::optional<tensor_arena> inputs_, outputs_;
};

/// Hidden distributions, by what is done to what get_inputs gives (module_distributions.py). f(0) =
/// 0, so that structure stays: triangles, masks.
inline constexpr std::array<std::string_view, 6> module_families{"large",  "small",    "signed",
                                                                 "sparse", "constant", "planted"};

/// An error that says why the process of a reference did not answer: invalid_argument where the
/// module is to blame, exhausted where it was refused memory, unavailable where the process is
/// gone.
base::error reference_error(const runner_failure& why);

}  // namespace quern::env
