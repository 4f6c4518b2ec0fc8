// Processes that are of no more use: killed at once, waited for beside the next evaluation.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "env/gpu/quiet.hpp"
#include "env/gpu/runner_process.hpp"

namespace quern::env {

/// Thread-safe. What was given to it disturbs the device (quiet.hpp) until the driver has taken its
/// context down, which takes as long as making one.
class gpu_process_reaper {
 public:
  explicit gpu_process_reaper(device_quiet& quiet);
  ~gpu_process_reaper();  ///< waits for all
  gpu_process_reaper(const gpu_process_reaper&) = delete;
  gpu_process_reaper& operator=(const gpu_process_reaper&) = delete;

  /// Not while this thread holds the device quiet.
  void add(std::unique_ptr<gpu_runner_process> process);
  /// Returns when every process that was added is reaped, its device memory with it.
  void wait();

 private:
  void work();

  device_quiet& quiet_;
  std::mutex guard_;
  std::condition_variable changed_;
  struct leaving {
    std::unique_ptr<gpu_runner_process> process;
    std::unique_ptr<device_quiet::disturbance> noise;
  };
  std::deque<leaving> queue_;
  bool busy_ = false, stop_ = false;
  std::thread ender_;
};

}  // namespace quern::env
