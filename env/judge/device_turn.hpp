// A GPU among the processes of this host, one after the other: evaluators, and where a run has
// fewer GPUs than roles, its generator and learner.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "env/judge/device_lock.hpp"

namespace quern::env {

/// Who waits is next: a process that gives the device back and wants it again stands behind the one
/// that waited in the meantime, as long as turns last longer than the few ms between two looks at
/// the locks. A turn ends with the process that has it. One thread.
class device_turn {
 public:
  /// `bus_id` as gpu_probe writes it: the device, whatever number a process knows it by.
  static base::expected<device_turn> open(const std::string& bus_id);
  /// The same with its node given (device_lock.hpp); empty: none.
  static base::expected<device_turn> open(const std::string& bus_id,
                                          const std::filesystem::path& node);

  device_turn(device_turn&& other) noexcept
      : busy_(std::move(other.busy_)),
        queue_(std::move(other.queue_)),
        held_(std::exchange(other.held_, false)) {}
  device_turn& operator=(device_turn&& other) noexcept {
    give_back();
    busy_ = std::move(other.busy_);
    queue_ = std::move(other.queue_);
    held_ = std::exchange(other.held_, false);
    return *this;
  }
  /// Gives it back.
  ~device_turn() { give_back(); }

  /// Waits for the device, its place in line included, at most `seconds` by `clock` and no
  /// longer than the calling thread's base::thread_deadline leaves; whether it was taken. Not while
  /// it is held.
  bool wait(double seconds, const base::clock& clock = base::steady_clock());
  /// Takes it when it is free and nobody waits.
  bool try_take();
  void give_back();
  [[nodiscard]] bool held() const { return held_; }

 private:
  device_turn(device_lock busy, device_lock queue)
      : busy_(std::move(busy)), queue_(std::move(queue)) {}
  device_lock busy_, queue_;
  bool held_ = false;
};

}  // namespace quern::env
