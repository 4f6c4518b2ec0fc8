#include "actors/config/device_class.hpp"

#include <charconv>

#include <unistd.h>

#include "base/text.hpp"
#include "env/task/lane_on_gpus.hpp"

namespace quern::actors {

const env::lane& lane_of(const run_config& config) {
  return *env::find_lane(config.env.lane);
}

bool on_gpus(const run_config& config) {
  return env::measures_on_gpu(lane_of(config), config.env.device == "gpu");
}

base::status check_device_of_lane(const run_config& config) {
  if (config.env.device != "gpu" || on_gpus(config)) return {};
  std::string others;
  for (const env::lane* one : env::all_lanes())
    if (env::measures_on_gpu(*one, true))
      others += (others.empty() ? "" : ", ") + std::string(one->name);
  return base::fail(base::errc::invalid_argument,
                    "env.device is gpu, but lane {} is measured on a core alone (on GPUs are {}): "
                    "leave env.device out, or set env.lane to one of these",
                    config.env.lane, others.empty() ? "none" : others);
}

base::status check_gpus_here(const run_config& config) {
  const env::lane& lane = lane_of(config);
  if (!on_gpus(config)) return {};
  if (lane.on_gpus_too != nullptr) {
    if (const auto there = lane.on_gpus_too->check_devices(); !there)
      return base::fail(base::errc::unavailable,
                        "env.device is {} and env.evaluators {}: {}; with env.evaluators: 0 others "
                        "join at env.bind",
                        config.env.device, config.env.evaluators, there.error().message);
    return {};
  }
  if (::access("/dev/nvidiactl", F_OK) == 0) return {};
  return base::fail(base::errc::unavailable,
                    "env.evaluators is {}, but no NVIDIA driver is loaded here (no "
                    "/dev/nvidiactl): evaluators of lane {} need a GPU; with env.evaluators: 0 "
                    "others join at env.bind",
                    config.env.evaluators, config.env.lane);
}

base::expected<std::vector<int>> gpus_of(const run_config& config) {
  std::vector<int> gpus;
  for (const std::string_view part : base::split(config.env.gpus, ',')) {
    const std::string_view word = base::trim(part);
    int number = -1;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (code != std::errc() || end != word.data() + word.size() || number < 0 || number > 63)
      return base::fail(base::errc::invalid_argument,
                        "env.gpus is '{}': numbers from 0 to 63 with commas between are needed",
                        config.env.gpus);
    gpus.push_back(number);
  }
  return gpus;
}

base::expected<std::string> device_class_of(const run_config& config) {
  const env::lane& lane = lane_of(config);
  if (!on_gpus(config)) return lane.device_class(0);
  if (!config.env.device_class.empty()) return config.env.device_class;
  QUERN_TRY(const std::vector<int> gpus, gpus_of(config));
  auto found = env::device_class_on(lane, true, gpus.front());
  if (found) return found;
  return base::fail(found.error().code,
                    "env.lane is {} and env.gpus '{}': {}: name another one in env.gpus, or "
                    "the class of the evaluators' GPUs in env.device_class (quern doctor tells it "
                    "there)",
                    config.env.lane, config.env.gpus, found.error().message);
}

std::string usual_device_class(const run_config& config) {
  const env::lane& lane = lane_of(config);
  if (!on_gpus(config)) return std::string(lane.usual_device_class);
  if (!config.env.device_class.empty()) return config.env.device_class;
  return std::string(lane.on_gpus_too != nullptr ? lane.on_gpus_too->usual_device_class
                                                 : lane.usual_device_class);
}

}  // namespace quern::actors
