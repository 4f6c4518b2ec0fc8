// Who may disturb a device: making a context for the next candidate and taking one down hold up
// whatever asks the driver for anything beside them, so neither goes on while anything is timed.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "env/judge/device_lock.hpp"

namespace quern::env {

/// One device's. Thread-safe. A measurement waits for what disturbs, or has it stand still; what
/// would disturb waits for the measurement's end.
class device_quiet {
  /// The lock among evaluators, in hand.
  using grip = std::optional<device_lock>;

 public:
  /// `bus_id`: the device, whose lock all its evaluators share (env/judge/device_lock.hpp); empty:
  /// this one alone. Where the lock cannot be opened each keeps quiet by itself.
  explicit device_quiet(const std::string& bus_id = "");
  /// The same with the node of the device given; empty: none.
  device_quiet(std::string bus_id, std::filesystem::path node)
      : bus_id_(std::move(bus_id)), node_(std::move(node)) {}

  /// While it lives nothing disturbs.
  class hold {
   public:
    explicit hold(device_quiet& of);
    ~hold();
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;

   private:
    device_quiet& quiet_;
    grip among_all_;
  };

  /// While it lives something may disturb.
  class disturbance {
   public:
    explicit disturbance(device_quiet& of);
    ~disturbance();
    disturbance(const disturbance&) = delete;
    disturbance& operator=(const disturbance&) = delete;

   private:
    device_quiet& quiet_;
    grip among_all_;
  };

  /// A disturbance that can stand still: a measurement makes it do so instead of waiting for its
  /// end.
  class interruptible {
   public:
    /// `set_paused(true)` returns when nothing of it goes on any more, `set_paused(false)` lets it
    /// go on; by any thread, one at a time, while this object lives.
    interruptible(device_quiet& of, std::function<void(bool paused)> set_paused);
    /// Nothing is left standing: waits for the end of a measurement that made it stand still, so
    /// not by the thread that measures.
    ~interruptible();
    interruptible(const interruptible&) = delete;
    interruptible& operator=(const interruptible&) = delete;

   private:
    friend class device_quiet;
    /// Both with the guard held.
    void pause();
    void resume();

    device_quiet& quiet_;
    std::function<void(bool)> set_paused_;
    bool paused_ = false;
    grip among_all_;
  };

  /// Lets go on what stands still although nobody here measures: when the measurement ended,
  /// another evaluator had begun one. For whoever waits for it.
  void let_go_on();

  /// Whether something of this evaluator disturbs right now.
  [[nodiscard]] bool disturbed() const {
    const std::lock_guard lock(guard_);
    return is_disturbed();
  }
  /// What can be told apart at two moments.
  struct look {
    std::uint64_t epoch = 0, begun = 0, present = 0;
    bool disturbed = false;
  };
  [[nodiscard]] look now() const {
    const std::lock_guard lock(guard_);
    return {epoch_, begun_, present(), is_disturbed()};
  }
  /// Contexts that may have been made or taken down between the two: none where all stood still.
  [[nodiscard]] static std::uint64_t disturbers_between(const look& before, const look& after) {
    if (before.epoch == after.epoch && !before.disturbed && !after.disturbed) return 0;
    return std::max<std::uint64_t>(1, before.present + (after.begun - before.begun));
  }
  /// Differs from what it was before where something began or ended to disturb meanwhile.
  [[nodiscard]] std::uint64_t epoch() const {
    const std::lock_guard lock(guard_);
    return epoch_;
  }

 private:
  /// Waits for it. None where it cannot be opened.
  [[nodiscard]] grip take(device_lock::share how);
  /// Into `to`, beside others that disturb; false where one measures.
  [[nodiscard]] bool try_take_shared(grip& to);
  void give_up(grip& lock);
  /// Open and not taken.
  [[nodiscard]] grip open_lock();

  [[nodiscard]] bool is_disturbed() const {
    return disturbing_ > 0 || std::any_of(interruptibles_.begin(), interruptibles_.end(),
                                          [](const interruptible* one) { return !one->paused_; });
  }
  [[nodiscard]] std::uint64_t present() const {
    return static_cast<std::uint64_t>(disturbing_) + interruptibles_.size();
  }

  const std::string bus_id_;
  const std::filesystem::path node_;
  std::mutex spare_guard_;
  /// Open and given back: to open a node is to ask the driver, which measurements would notice.
  std::vector<device_lock> spare_;
  mutable std::mutex guard_;
  std::condition_variable changed_;
  int holds_ = 0;
  int disturbing_ = 0;
  std::uint64_t epoch_ = 0, begun_ = 0;
  std::vector<interruptible*> interruptibles_;
};

}  // namespace quern::env
