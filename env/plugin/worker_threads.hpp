// Threads whose end is waited for with an eye on the clock: what they are at may take long.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"

namespace quern::env {

/// How threads are brought to their end.
struct ending_rules {
  /// Called every 20 ms until all have ended: ends what they wait for. Empty: they are waited for.
  std::function<void()> hasten = {};
  /// Called once when some have not ended after `longest_ns`; need not return. Empty: never.
  std::function<void()> give_up = {};
  base::nanoseconds_t longest_ns = 0;
};

/// One thread starts and joins; the bodies have to know by themselves when to end.
class worker_threads {
 public:
  worker_threads() = default;
  ~worker_threads() { join({}); }
  worker_threads(const worker_threads&) = delete;
  worker_threads& operator=(const worker_threads&) = delete;

  void start(std::function<void()> body);
  /// Returns when all have ended.
  void join(const ending_rules& rules);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t running_ = 0;  ///< guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace quern::env
