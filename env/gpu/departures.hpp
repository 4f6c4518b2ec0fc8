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
class gpu_departures {
 public:
  explicit gpu_departures(device_quiet& quiet);
  ~gpu_departures();  ///< waits for all
  gpu_departures(const gpu_departures&) = delete;
  gpu_departures& operator=(const gpu_departures&) = delete;

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
