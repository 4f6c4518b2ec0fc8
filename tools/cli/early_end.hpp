// The end of a program that is asked to end while it still starts.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/pause_signals.hpp"
#include "base/status.hpp"

namespace quern::tools {

/// From its making to its end, SIGINT, SIGTERM and SIGHUP call `end` on a thread of its own, which
/// must end the process. Make it while the process has no other thread; those made during its life
/// never take these signals. One that arrives just before its end is given to the handlers that
/// were set until then.
class early_end {
 public:
  /// Error: exhausted, where the system makes no thread.
  static base::expected<std::unique_ptr<early_end>> watch(std::function<void()> end);
  ~early_end();
  early_end(const early_end&) = delete;
  early_end& operator=(const early_end&) = delete;

 private:
  early_end() = default;
  base::pause_signals signals_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace quern::tools
