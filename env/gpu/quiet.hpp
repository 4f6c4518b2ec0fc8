// Who may disturb a device: making a context for the next candidate and taking one down stop
// whatever runs beside them, so neither goes on while anything is timed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/file.hpp"

namespace quern::env {

/// One device's. Thread-safe. A measurement waits for what disturbs; what would disturb waits for
/// the measurement's end.
class device_quiet {
 public:
  /// `lock`: name of a lock of this host (env/judge/host_lock.hpp) that all evaluators of the
  /// device share; empty: this one alone. Where it cannot be opened each keeps quiet by itself.
  explicit device_quiet(std::string lock = "") : lock_(std::move(lock)) {}

  /// While it lives nothing disturbs.
  class hold {
   public:
    explicit hold(device_quiet& of);
    ~hold();
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;

   private:
    device_quiet& of_;
    base::unique_fd among_all_;
  };

  /// While it lives something may disturb.
  class disturbance {
   public:
    explicit disturbance(device_quiet& of);
    ~disturbance();
    disturbance(const disturbance&) = delete;
    disturbance& operator=(const disturbance&) = delete;

   private:
    device_quiet& of_;
    base::unique_fd among_all_;
  };

  /// Whether something of this evaluator disturbs right now.
  [[nodiscard]] bool disturbed() const {
    const std::lock_guard lock(guard_);
    return disturbing_ > 0;
  }
  /// Differs from what it was before where something began or ended to disturb meanwhile.
  [[nodiscard]] std::uint64_t epoch() const {
    const std::lock_guard lock(guard_);
    return epoch_;
  }

 private:
  [[nodiscard]] base::unique_fd take(int how) const;

  const std::string lock_;
  mutable std::mutex guard_;
  std::condition_variable changed_;
  int holds_ = 0;
  int disturbing_ = 0;
  std::uint64_t epoch_ = 0;
};

}  // namespace quern::env
