#include "actors/config/learner_setup.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace quern::actors {

base::expected<std::vector<std::int64_t>> learner_devices(const run_config& config) {
  std::vector<std::int64_t> devices;
  std::string_view rest = config.learner.devices;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    std::int64_t number = -1;
    const auto [end, code] = std::from_chars(one.data(), one.data() + one.size(), number);
    if (code != std::errc() || end != one.data() + one.size() || number < 0 ||
        std::find(devices.begin(), devices.end(), number) != devices.end())
      return base::fail(base::errc::invalid_argument,
                        "learner.devices is '{}': numbers of different GPUs with commas between "
                        "are needed",
                        config.learner.devices);
    devices.push_back(number);
  }
  if (devices.empty())
    for (std::int64_t rank = 0; rank < config.learner.ranks; ++rank)
      devices.push_back(rank);
  if (std::ssize(devices) != config.learner.ranks)
    return base::fail(base::errc::invalid_argument,
                      "learner.devices names {} GPUs, but learner.ranks is {}: one GPU a rank",
                      devices.size(), config.learner.ranks);
  return devices;
}

policy::learner_demand learner_demand_of(const run_config& config) {
  const std::int64_t longest = config.policy.max_prompt_tokens + config.policy.max_new_tokens;
  policy::learner_demand demand;
  demand.ranks = config.learner.ranks;
  demand.weight_bytes = config.learner.precision == "bfloat16" ? 2 : 4;
  demand.longest_sequence = longest;
  demand.micro_batch_tokens =
      std::min(config.learner.micro_batch_tokens,
               longest * config.algorithm.groups_per_step * config.algorithm.group_size);
  demand.loss_chunk = config.learner.loss_chunk;
  demand.threads = config.learner.threads;
  demand.recompute =
      policy::parse_recompute(config.learner.recompute).value_or(policy::recompute_mode::none);
  demand.reference = config.algorithm.kl_weight > 0;
  return demand;
}

}  // namespace quern::actors
