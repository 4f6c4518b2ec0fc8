#include "actors/config/gpus.hpp"

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "base/text.hpp"

namespace quern::actors {

std::int64_t gpus_shown() {
  std::error_code none;
  const std::filesystem::directory_iterator all("/proc/driver/nvidia/gpus", none);
  const auto shown = none ? 0 : std::distance(begin(all), end(all));
  const char* allotted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (shown == 0 || allotted == nullptr) return shown;
  return std::ssize(base::split(allotted, ','));
}

base::expected<std::string> only_gpu(std::int64_t number, const std::string& host) {
  const char* allotted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!host.empty() || allotted == nullptr) return fmt::format("CUDA_VISIBLE_DEVICES={}", number);
  const auto names = base::split(allotted, ',');
  if (static_cast<std::size_t>(number) >= names.size())
    return base::fail(base::errc::invalid_argument,
                      "GPU {} is asked for, but CUDA_VISIBLE_DEVICES is '{}': numbers count within "
                      "it, from 0",
                      number, allotted);
  return fmt::format("CUDA_VISIBLE_DEVICES={}",
                     base::trim(names[static_cast<std::size_t>(number)]));
}

base::status check_gpu_numbers(const run_config& config, std::int64_t there) {
  const auto check = [&](std::string_view key, std::int64_t number) -> base::status {
    if (number < there) return {};
    return base::fail(base::errc::invalid_argument,
                      "{} asks for GPU {}, but {} here, counted from 0: take another number, or "
                      "fewer learner.ranks",
                      key, number, there == 1 ? "1 is" : fmt::format("{} are", there));
  };
  QUERN_TRY(const placement where, placement_of(config));
  QUERN_TRY(const auto devices, learner_devices(config));
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    if (config.learner.device == "cuda" && where.ranks[rank].empty())
      QUERN_CHECK(check("learner.devices", devices[rank]));
  if (config.stage != "sft" && config.actors.generator_device == "cuda" && where.generator.empty())
    QUERN_CHECK(check("actors.generator_gpu", config.actors.generator_gpu));
  QUERN_TRY(const auto measuring, measuring_gpus(config, ""));
  for (const int gpu : measuring)
    QUERN_CHECK(check("env.gpus", gpu));
  return {};
}

}  // namespace quern::actors
