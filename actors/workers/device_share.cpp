#include "actors/workers/device_share.hpp"

#include <algorithm>

#include "actors/config/placement.hpp"
#include "base/log.hpp"
#include "env/device/gpu_probe.hpp"

namespace quern::actors {
namespace {

/// About as long as an evaluation has it.
constexpr base::nanoseconds_t turn_ns = 100'000'000;
/// Beyond this the device is used without a turn: a measurement may suffer, the run does not stand.
constexpr double patience_s = 300;

}  // namespace

base::expected<device_share> device_share::make(const run_config& config,
                                                const std::string& on_host, int gpu, int visible) {
  device_share made;
  QUERN_TRY(const auto measuring, measuring_gpus(config, on_host));
  if (std::find(measuring.begin(), measuring.end(), gpu) == measuring.end()) return made;
  QUERN_TRY(const auto host, env::list_gpus());
  if (static_cast<std::size_t>(visible) >= host.gpus.size())
    return base::fail(base::errc::not_found, "GPU {} is not there: this process sees {}", visible,
                      host.gpus.size());
  QUERN_TRY(made.turn_,
            env::device_turn::open(host.gpus[static_cast<std::size_t>(visible)].bus_id));
  base::log_info("device", "GPU {} is shared with evaluators, by turns", gpu);
  return made;
}

void device_share::take(const std::function<bool()>& over) {
  if (!turn_ || turn_->held()) return;
  const base::nanoseconds_t asked_ns = clock_.now_ns();
  const auto left_s = [&] {
    return patience_s - static_cast<double>(clock_.now_ns() - asked_ns) / 1e9;
  };
  const double look_s = over ? 1 : patience_s;
  while (!turn_->wait(std::min(look_s, left_s())) && !(over && over())) {
    if (left_s() > 0) continue;
    base::log_warn("device", "the GPU was not given back for {} s: going on beside others",
                   patience_s);
    break;
  }
  taken_ns_ = clock_.now_ns();
  waited_ns_ += taken_ns_ - asked_ns;
}

void device_share::rest() {
  if (turn_ && turn_->held() && clock_.now_ns() - taken_ns_ >= turn_ns) turn_->give_back();
}

void device_share::leave() {
  if (turn_) turn_->give_back();
}

}  // namespace quern::actors
