// Runner processes with their contexts made ahead, so that no evaluation waits for one.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "env/gpu/parts.hpp"
#include "env/gpu/quiet.hpp"
#include "env/gpu/runner_process.hpp"

namespace quern::env {

struct gpu_pool_options {
  std::size_t ahead = 1;      ///< processes with one queue kept ready
  std::size_t ahead_all = 0;  ///< and with all queues, once one was asked for
  std::size_t makers = 1;     ///< threads that make them
  /// Called with each as soon as its context is made, by the thread that made it; may be null.
  std::function<base::status(gpu_runner_process&)> prepare;
};

/// Keeps processes ready, started by threads of its own: their contexts one after the other, while
/// nothing is held quiet, all that comes before at any time. Thread-safe.
class gpu_runner_pool {
 public:
  /// `how.queues` is each process's own; `parts` may be null.
  gpu_runner_pool(spawner& children, gpu_runner_start how, gpu_pool_options options,
                  device_quiet& quiet, gpu_parts* parts = nullptr);
  ~gpu_runner_pool();
  gpu_runner_pool(const gpu_runner_pool&) = delete;
  gpu_runner_pool& operator=(const gpu_runner_pool&) = delete;

  /// The oldest that is ready and lives, with these queues; waits for one, so not while the device
  /// is held quiet. Error: why none could be started.
  base::expected<std::unique_ptr<gpu_runner_process>> take(work_queues queues = work_queues::one);

  /// Processes in the pool, for the baseline of device memory.
  [[nodiscard]] std::size_t ready() const;

 private:
  /// Those with the same queues.
  struct kind {
    std::deque<std::unique_ptr<gpu_runner_process>> ready;
    std::optional<base::error> failed;
    std::size_t ahead = 0;
    std::size_t waiting = 0;
    std::size_t in_making = 0;
    /// Leaves out those at the front that have ended.
    bool any_alive();
  };
  void work();
  /// The kind that lacks one; null: none does. With the guard held.
  kind* lacking();
  [[nodiscard]] kind& of(work_queues queues) { return kinds_[static_cast<std::size_t>(queues)]; }
  base::expected<std::unique_ptr<gpu_runner_process>> make(work_queues queues);

  spawner& children_;
  gpu_runner_start start_;
  gpu_pool_options options_;
  device_quiet& quiet_;
  gpu_parts* parts_;
  std::mutex contexts_;  ///< held while a context is made
  mutable std::mutex guard_;
  std::condition_variable wanted_, made_;
  std::array<kind, 2> kinds_;  ///< by work_queues
  bool stop_ = false;
  std::vector<std::thread> makers_;
};

}  // namespace quern::env
