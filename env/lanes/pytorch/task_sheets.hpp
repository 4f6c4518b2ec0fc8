// What models of tasks are called with, learnt ahead on tensors without memory.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "base/status.hpp"
#include "env/judge/recently_used.hpp"
#include "env/lanes/pytorch/process/module_sheet.hpp"
#include "env/lanes/pytorch/recording_python.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// Asks children of a warm Python without a device, so that who asks waits for nobody that judges.
/// Thread-safe: different tasks are asked about side by side, one task once.
class task_sheets {
 public:
  /// `python` outlives it.
  explicit task_sheets(recording_python& python) : python_(python) {}

  /// Types and shapes of a task's inputs, weights and results; what only values can tell is false.
  /// Errors: of the reference, or of this host.
  base::expected<module_sheet> of(const task& subject);
  /// The same where it was learnt already, and nothing else.
  std::optional<module_sheet> known(const task& subject);

 private:
  /// One task, asked about by who came first.
  struct entry {
    std::mutex guard;
    std::optional<base::expected<module_sheet>> sheet;  ///< or why there is none
  };
  std::shared_ptr<entry> entry_of(const task& subject);
  base::expected<module_sheet> describe(const task& subject);

  recording_python& python_;
  std::mutex guard_;
  recently_used<std::shared_ptr<entry>> entries_{64};
};

}  // namespace quern::env
