// A worker's GPU where the run's evaluators measure on the same one: each has it by turns, so that
// no measurement runs beside a worker's kernels.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "actors/config/run_config.hpp"
#include "base/clock.hpp"
#include "base/status.hpp"
#include "env/judge/device_turn.hpp"

namespace quern::actors {

/// One thread. Without a device to share every call returns at once.
class device_share {
 public:
  device_share() = default;
  /// Shares the device of `turn`.
  explicit device_share(env::device_turn turn) : turn_(std::move(turn)) {}
  /// `gpu`: number of the worker's GPU on `on_host` (config/placement.hpp), which this machine is;
  /// `visible`: the number by which this process knows it. Shares nothing where no evaluator of the
  /// run measures there. Error: the GPU's address cannot be found out.
  static base::expected<device_share> make(const run_config& config, const std::string& on_host,
                                           int gpu, int visible);

  [[nodiscard]] bool shared() const { return turn_.has_value(); }
  /// Waits for the device, unless it is held already. Where `over` is given, which is asked about
  /// once a second, a wait ends without the device as soon as it is true.
  void take(const std::function<bool()>& over = {});
  /// Between two steps, with nothing under way on the device: gives it back when this turn has
  /// lasted long enough.
  void rest();
  /// Gives it back: nothing is to be done for now.
  void leave();
  /// How long `take` has waited in all.
  [[nodiscard]] base::nanoseconds_t waited_ns() const { return waited_ns_; }

  /// Takes it for a scope, at whose end nothing is under way on the device.
  class hold {
   public:
    explicit hold(device_share& of, const std::function<bool()>& over = {}) : share_(of) {
      share_.take(over);
    }
    ~hold() { share_.leave(); }
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;

   private:
    device_share& share_;
  };

 private:
  std::optional<env::device_turn> turn_;
  base::steady_clock clock_;
  base::nanoseconds_t taken_ns_ = 0;
  base::nanoseconds_t waited_ns_ = 0;
};

}  // namespace quern::actors
