// A device in trouble: found out, left alone, tried again with everything made anew.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "env/device/device_quarantine.hpp"
#include "env/device/device_watch.hpp"
#include "env/gpu/device_context.hpp"
#include "env/judge/judge.hpp"
#include "env/runner/protocol.hpp"

namespace quern::env {

/// What a judge has on its device; a lane implements it.
class device_owner {
 public:
  virtual ~device_owner() = default;
  /// The context that is set up; not asked for between take_down() and set_up().
  virtual device_context& context() = 0;
  /// Ends everything that it has on the device, its context too.
  virtual void take_down() = 0;
  /// Makes it anew around a new context.
  virtual void set_up(std::unique_ptr<device_context> context) = 0;
  /// Starts a runner there. Text: what does not work.
  virtual std::optional<std::string> try_out() = 0;
};

/// Of one device. Not thread-safe.
class device_care {
 public:
  /// `owner` outlives it. To be made before its context has taken memory: what is free now is what
  /// has to be free after a self-test. Errors: the device cannot be asked.
  static base::expected<device_care> begin(device_owner& owner, int gpu, device_context& context);

  [[nodiscard]] device_watch& watch() { return watch_; }
  [[nodiscard]] device_quarantine& quarantine() { return quarantine_; }
  /// By the clock of the quarantine.
  [[nodiscard]] base::nanoseconds_t now() const { return clock_.now_ns(); }
  /// The device may not be used, for this cause.
  void enter(quarantine_cause cause, std::string reason);

  /// By whoever has the device's turn, before the context is used: another evaluator of this
  /// process may have ended the CUDA context in a self-test. Error: it cannot be made anew.
  base::status take_up();
  /// What an evaluation that used the device says about it; `why` of its last finding. The verdict
  /// becomes the host's where the driver blames the device.
  void look_after(verdict& v, runner::cause why);
  /// Empty: it takes work.
  [[nodiscard]] std::optional<device_trouble> trouble() const;
  /// A self-test, with everything on the device made anew, when one is due and nobody measures.
  void recover();

 private:
  device_care(device_owner& owner, int gpu) : owner_(&owner), gpu_(gpu) {}

  /// Whether the device computes and has its memory; empty: it does.
  std::optional<std::string> self_test();
  std::optional<std::string> memory_is_back(std::uint64_t free_now);

  device_owner* owner_;
  int gpu_;
  base::steady_clock clock_;
  device_watch watch_;
  device_quarantine quarantine_;
  /// When it began, with nothing of ours on the device.
  std::uint64_t free_at_first_ = 0;
  std::optional<std::uint64_t> unaccounted_at_first_;
};

}  // namespace quern::env
