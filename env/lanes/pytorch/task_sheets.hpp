// What models of tasks are called with, learnt ahead on tensors without memory.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "base/status.hpp"
#include "env/judge/recently_used.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// Starts a warm Python of its own when it is asked first, so that who asks waits for nobody that
/// judges. Thread-safe; one question at a time.
class task_sheets {
 public:
  explicit task_sheets(sandbox_mode mode) : mode_(mode) {}

  /// Types and shapes of a task's inputs, weights and results; what only values can tell is false.
  /// Errors: of the reference, or of this host.
  base::expected<module_sheet> of(const task& subject);

 private:
  base::expected<module_sheet> describe(const task& subject);

  const sandbox_mode mode_;
  std::mutex guard_;
  std::optional<python_zygote> zygote_;
  recently_used<module_sheet> known_{64};
};

}  // namespace quern::env
