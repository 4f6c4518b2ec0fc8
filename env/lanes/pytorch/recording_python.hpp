// A warm Python without a device, which learns what texts ask for.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/status.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"

namespace quern::env {

/// Children of it describe references and record what candidates want built, on tensors without
/// memory. To import what torch wants for that takes seven seconds of a core, once. Thread-safe.
class recording_python {
 public:
  explicit recording_python(sandbox_mode mode);
  ~recording_python();
  recording_python(const recording_python&) = delete;
  recording_python& operator=(const recording_python&) = delete;

  /// Has it started beside what comes next.
  void warm_up();
  /// A child, which ends with its object; waits until the warm Python stands, and starts a fresh
  /// one where it has ended. Errors as python_zygote::start() and fork() have them.
  base::expected<python_child> fork(const python_start& how);

 private:
  void keep(const std::stop_token& over);
  /// With `guard_` held by `lock`; waits for keep().
  base::expected<python_zygote*> standing(std::unique_lock<std::mutex>& lock);

  const sandbox_mode mode_;
  std::mutex guard_;
  std::condition_variable_any changed_;
  bool wanted_ = false;
  std::optional<python_zygote> zygote_;
  std::optional<base::error> failed_;
  /// Starts it and stays: a process ends with the thread that started it. The last member: it uses
  /// the others.
  std::jthread keeper_;
};

}  // namespace quern::env
