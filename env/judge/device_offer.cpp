// What an evaluator host is asked to offer.
#include "env/judge/device_offer.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "env/task/lane_on_gpus.hpp"

namespace quern::env {
namespace {

/// The first lane of a kind of device.
const lane* first_lane_on(device_kind device) {
  const auto all = all_lanes();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const lane* one) { return one->device == device; });
  return found == all.end() ? nullptr : *found;
}

std::string names_of(const std::vector<const lane*>& lanes) {
  std::vector<std::string_view> names;
  for (const lane* one : lanes)
    names.push_back(one->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Those that --gpus is for.
std::string lanes_for_gpus() {
  std::vector<const lane*> lanes;
  for (const lane* one : all_lanes())
    if (measures_on_gpu(*one, true)) lanes.push_back(one);
  return names_of(lanes);
}

}  // namespace

std::vector<const lane*> device_offer::lanes_on_gpus() const {
  std::vector<const lane*> found;
  for (const offered_lane& one : lanes)
    if (one.on_gpu) found.push_back(one.offered_lane);
  return found;
}

base::expected<device_offer> device_offer_of(const std::vector<std::string>& names,
                                             const std::vector<int>& gpus) {
  device_offer offer;
  for (const int gpu : gpus)
    if (std::find(offer.gpus.begin(), offer.gpus.end(), gpu) == offer.gpus.end())
      offer.gpus.push_back(gpu);
  std::vector<const lane*> asked;
  for (const lane* one : all_lanes())
    if (std::find(names.begin(), names.end(), one->name) != names.end()) asked.push_back(one);
  if (names.empty()) {
    const lane* const usual = first_lane_on(gpus.empty() ? device_kind::core : device_kind::gpu);
    if (usual == nullptr)
      return base::fail(base::errc::invalid_argument,
                        "no lane of this program runs on {}: name one with --lanes",
                        gpus.empty() ? "a core" : "a GPU");
    asked = {usual};
  }
  for (const lane* one : asked)
    offer.lanes.push_back({one, measures_on_gpu(*one, !gpus.empty())});
  const std::vector<const lane*> on_gpus = offer.lanes_on_gpus();
  if (!on_gpus.empty() && gpus.empty())
    return base::fail(base::errc::invalid_argument,
                      "--lanes names {}, but no GPU is named: add --gpus 0,1,…",
                      on_gpus.front()->name);
  if (on_gpus.empty() && !gpus.empty()) {
    const std::string others = lanes_for_gpus();
    return base::fail(base::errc::invalid_argument,
                      "--gpus names GPUs, but --lanes has no lane that uses them ({}){}",
                      names_of(asked),
                      others.empty() ? ": leave --gpus out" : ": add one of " + others);
  }
  return offer;
}

base::status check_room_on_gpu(const device_offer& offer, int number, std::uint64_t memory_bytes) {
  const std::vector<const lane*> on_gpus = offer.lanes_on_gpus();
  const std::uint64_t lanes = on_gpus.size();
  if (lanes < 2 || memory_bytes >= lanes * gpu_bytes_a_lane) return {};
  return base::fail(base::errc::invalid_argument,
                    "--gpus names GPU {} for lanes {}: it has {:.1f} GiB, and several lanes on one "
                    "GPU need {} GiB for each: start a host for each lane, on a GPU of its own",
                    number, names_of(on_gpus),
                    static_cast<double>(memory_bytes) / static_cast<double>(1 << 30),
                    gpu_bytes_a_lane >> 30);
}

}  // namespace quern::env
