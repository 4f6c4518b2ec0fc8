#include "actors/config/device_class.hpp"

#include <charconv>

#include "base/text.hpp"
#include "env/task/lane.hpp"

namespace quern::actors {

const env::lane& lane_of(const run_config& config) {
  return *env::find_lane(config.env.lane);
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
  if (lane.device == env::device_kind::core) return lane.device_class(0);
  if (!config.env.device_class.empty()) return config.env.device_class;
  QUERN_TRY(const std::vector<int> gpus, gpus_of(config));
  auto found = lane.device_class(gpus.front());
  if (found) return found;
  return base::fail(found.error().code,
                    "env.lane is {} and env.gpus '{}': {}: name another one in env.gpus, or "
                    "the class of the evaluators' GPUs in env.device_class (quern doctor tells it "
                    "there)",
                    config.env.lane, config.env.gpus, found.error().message);
}

}  // namespace quern::actors
