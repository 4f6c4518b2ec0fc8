// Runner processes with their contexts made ahead, so that no evaluation waits for one.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "env/gpu/runner_process.hpp"

namespace quern::env {

/// Keeps `ahead` processes ready, started by a thread of its own. Thread-safe.
class gpu_runner_pool {
 public:
  gpu_runner_pool(spawner& children, gpu_runner_start how, std::size_t ahead);
  ~gpu_runner_pool();
  gpu_runner_pool(const gpu_runner_pool&) = delete;
  gpu_runner_pool& operator=(const gpu_runner_pool&) = delete;

  /// The oldest that is ready; waits for one. Error: why none could be started.
  base::expected<std::unique_ptr<gpu_runner_process>> take();

  /// Processes in the pool, for the baseline of device memory.
  [[nodiscard]] std::size_t ready() const;

 private:
  void work();

  spawner& children_;
  gpu_runner_start how_;
  std::size_t ahead_;
  mutable std::mutex guard_;
  std::condition_variable wanted_, made_;
  std::deque<std::unique_ptr<gpu_runner_process>> ready_;
  std::optional<base::error> failed_;
  int waiting_ = 0;
  bool stop_ = false;
  std::thread maker_;
};

}  // namespace quern::env
