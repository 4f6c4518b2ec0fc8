// Results of a reference that is a module, on contents of the evaluator's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "env/core/core_task.hpp"
#include "env/lanes/pytorch/process/python_child.hpp"
#include "env/runner/arena.hpp"

namespace quern::env {

/// Runs a described reference on contents, in its precision or in f64.
class module_oracle {
 public:
  module_oracle(python_child& process, const task_instance& at) : process_(process), at_(at) {}

  /// For so many calls of one question.
  base::status open(bool in_f64, std::int64_t calls = 1);
  base::expected<std::vector<tensor_bytes>> run(const std::vector<tensor_bytes>& inputs);
  /// All calls as one question; open() was told how many there are.
  base::expected<std::vector<std::vector<tensor_bytes>>> run_in_a_row(
      std::span<const expected_case> calls);

 private:
  python_child& process_;
  const task_instance& at_;
  std::optional<tensor_arena> inputs_, outputs_;
  std::vector<tensor_layout> results_;
};

}  // namespace quern::env
