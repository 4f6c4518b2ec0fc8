// What models of tasks are called with, learnt ahead on tensors without memory.
#pragma once

#include <mutex>

#include "base/status.hpp"
#include "env/judge/recently_used.hpp"
#include "env/lanes/pytorch/process/module_sheet.hpp"
#include "env/lanes/pytorch/recording_python.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// Asks children of a warm Python without a device, so that who asks waits for nobody that judges.
/// Thread-safe; one question at a time.
class task_sheets {
 public:
  /// `python` outlives it.
  explicit task_sheets(recording_python& python) : python_(python) {}

  /// Types and shapes of a task's inputs, weights and results; what only values can tell is false.
  /// Errors: of the reference, or of this host.
  base::expected<module_sheet> of(const task& subject);

 private:
  base::expected<module_sheet> describe(const task& subject);

  recording_python& python_;
  std::mutex guard_;
  recently_used<module_sheet> known_{64};
};

}  // namespace quern::env
