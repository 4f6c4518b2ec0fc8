// What an evaluator host is asked to offer: lanes, and the devices that they are judged on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/task/lane.hpp"

namespace quern::env {

/// Memory that a GPU needs for each lane that it is offered for. The contexts of a lane's processes
/// take some 6 GiB before it has a task; the rest is for tasks of the lane that works.
inline constexpr std::uint64_t gpu_bytes_a_lane = std::uint64_t{16} << 30;

/// Plain value. One lane on one GPU is one device for a run; several lanes of one GPU take turns.
struct device_offer {
  struct offered_lane {
    const lane* offered_lane;
    bool on_gpu;  ///< on each of `gpus`; else on the host's one core
  };
  std::vector<offered_lane> lanes;  ///< each once, in the order of all_lanes()
  std::vector<int> gpus;            ///< by the driver's numbers, each once

  [[nodiscard]] std::vector<const lane*> lanes_on_gpus() const;
};

/// `names`: of lanes that there are; none: the first of those on GPUs where `gpus` names some, else
/// the first of those on a core. Where GPUs are named, a lane that can be judged on either is
/// judged there. Errors (invalid_argument): a lane and GPUs that do not go together.
base::expected<device_offer> device_offer_of(const std::vector<std::string>& names,
                                             const std::vector<int>& gpus);

/// Whether GPU `number` with so much memory has room for the lanes that are offered on it. Error:
/// invalid_argument.
base::status check_room_on_gpu(const device_offer& offer, int number, std::uint64_t memory_bytes);

}  // namespace quern::env
