#include "tools/ablate/places.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "base/text.hpp"

namespace quern::tools {
namespace {

using base::errc;
using base::fail;

constexpr int largest_gpu = 63;
constexpr std::string_view gpu_keys[] = {"env.gpus", "learner.devices", "actors.generator_gpu"};

}  // namespace

base::expected<std::vector<int>> parse_gpus(std::string_view list) {
  std::vector<int> gpus;
  for (const std::string_view part : base::split(list, ',')) {
    const std::string_view word = base::trim(part);
    int gpu = -1;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), gpu);
    if (code != std::errc() || end != word.data() + word.size() || gpu < 0 || gpu > largest_gpu)
      return fail(errc::invalid_argument,
                  "--gpus: '{}' is no GPU: numbers in 0 .. {} with commas between are needed, such "
                  "as 0,1",
                  word, largest_gpu);
    if (std::ranges::find(gpus, gpu) != gpus.end())
      return fail(errc::invalid_argument, "--gpus: {} stands twice: take one out", gpu);
    gpus.push_back(gpu);
  }
  return gpus;
}

base::expected<std::vector<ablation_place>> places_on(const std::vector<int>& processors,
                                                      std::int64_t count) {
  const std::int64_t share = std::ssize(processors) / std::max<std::int64_t>(1, count);
  if (count < 1 || share < 1)
    return fail(errc::invalid_argument,
                "{} runs side by side on {} processors, but each needs one of its own: say fewer",
                count, processors.size());
  std::vector<ablation_place> places;
  for (std::int64_t k = 0; k < count; ++k)
    places.push_back({{processors.begin() + k * share, processors.begin() + (k + 1) * share}, {}});
  return places;
}

base::expected<std::vector<ablation_place>> places_on(const std::vector<int>& processors,
                                                      const std::vector<int>& gpus) {
  QUERN_TRY(auto places, places_on(processors, std::ssize(gpus)));
  for (std::size_t k = 0; k < gpus.size(); ++k)
    places[k].gpu = gpus[k];
  return places;
}

std::vector<std::string> settings_of(const ablation_place& place) {
  std::vector<std::string> settings;
  if (!place.gpu) return settings;
  for (const std::string_view key : gpu_keys)
    settings.push_back(fmt::format("{}={}", key, *place.gpu));
  return settings;
}

bool is_placing(std::string_view key) {
  return std::ranges::find(gpu_keys, key) != std::end(gpu_keys);
}

base::status check_places(const std::vector<ablation_place>& places,
                          const actors::run_config& config) {
  if (places.size() > 1 && config.env.core >= 0)
    return fail(errc::invalid_argument,
                "env.core is {}, but runs that are made side by side have processors of their own: "
                "set it to -1",
                config.env.core);
  const bool named = std::ranges::any_of(
      places, [](const ablation_place& place) { return place.gpu.has_value(); });
  if (named && config.learner.device != "cuda" && config.actors.generator_device != "cuda" &&
      !actors::on_gpus(config))
    return fail(errc::invalid_argument,
                "--gpus: nothing of this configuration runs on a GPU (learner.device is {}, "
                "actors.generator_device is {}, lane {} measures on cores): leave --gpus out, or "
                "set one of them",
                config.learner.device, config.actors.generator_device, config.env.lane);
  if (named && config.learner.ranks > 1)
    return fail(errc::invalid_argument,
                "learner.ranks is {}, but --gpus gives each run one GPU: set it to 1",
                config.learner.ranks);
  return {};
}

std::string to_text(const ablation_place& place) {
  std::string text = "processors ";
  const auto& all = place.processors;
  for (std::size_t k = 0; k < all.size();) {
    std::size_t end = k + 1;
    while (end < all.size() && all[end] == all[end - 1] + 1)
      ++end;
    if (k > 0) text += ",";
    text += std::to_string(all[k]);
    if (end - k > 1) text += "-" + std::to_string(all[end - 1]);
    k = end;
  }
  return place.gpu ? fmt::format("{}, GPU {}", text, *place.gpu) : text;
}

}  // namespace quern::tools
