// Who may disturb a device: making a context for the next candidate and taking one down stop
// whatever runs beside them, so neither goes on while anything is timed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace quern::env {

/// One device's. Thread-safe. A measurement waits for what disturbs; what would disturb waits for
/// the measurement's end.
class device_quiet {
 public:
  /// While it lives nothing disturbs.
  class hold {
   public:
    explicit hold(device_quiet& of) : of_(of) {
      std::unique_lock lock(of_.guard_);
      ++of_.holds_;
      of_.changed_.wait(lock, [&] { return of_.disturbing_ == 0; });
    }
    ~hold() {
      const std::lock_guard lock(of_.guard_);
      --of_.holds_;
      of_.changed_.notify_all();
    }
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;

   private:
    device_quiet& of_;
  };

  /// While it lives something may disturb.
  class disturbance {
   public:
    explicit disturbance(device_quiet& of) : of_(of) {
      std::unique_lock lock(of_.guard_);
      of_.changed_.wait(lock, [&] { return of_.holds_ == 0; });
      ++of_.disturbing_;
      ++of_.epoch_;
    }
    ~disturbance() {
      const std::lock_guard lock(of_.guard_);
      --of_.disturbing_;
      ++of_.epoch_;
      of_.changed_.notify_all();
    }
    disturbance(const disturbance&) = delete;
    disturbance& operator=(const disturbance&) = delete;

   private:
    device_quiet& of_;
  };

  /// Whether something disturbs right now.
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
  mutable std::mutex guard_;
  std::condition_variable changed_;
  int holds_ = 0;
  int disturbing_ = 0;
  std::uint64_t epoch_ = 0;
};

}  // namespace quern::env
