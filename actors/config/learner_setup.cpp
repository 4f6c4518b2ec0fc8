#include "actors/config/learner_setup.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/config/placement.hpp"

namespace quern::actors {
namespace {

/// Parameters of the formula and the keys that set them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> keys_of_loss{{
    {"clip_low", "algorithm.clip_low"},
    {"clip_high", "algorithm.clip_high"},
    {"importance_cap", "algorithm.importance_cap"},
    {"negative_scale", "algorithm.negative_scale"},
    {"kl_coefficient", "algorithm.kl_weight"},
    {"denominator_tokens", "policy.max_new_tokens"},
}};

}  // namespace

policy::loss_parameters loss_parameters_of(const run_config& config) {
  auto loss = policy::preset_defaults(*policy::parse_preset(config.algorithm.preset));
  loss.clip_low = config.algorithm.clip_low;
  loss.clip_high = config.algorithm.clip_high;
  loss.importance_cap = config.algorithm.importance_cap;
  loss.negative_scale = config.algorithm.negative_scale;
  if (loss.name == policy::preset::group_smoothed) loss.kl_coefficient = config.algorithm.kl_weight;
  if (loss.divide_by == policy::denominator::constant) {
    loss.denominator_tokens = static_cast<double>(config.policy.max_new_tokens);
  }
  return loss;
}

base::status check_loss(const run_config& config) {
  using base::errc;
  using base::fail;
  if (auto known = policy::parse_preset(config.algorithm.preset); !known)
    return fail(errc::invalid_argument, "algorithm.preset: {}", known.error().message);
  const policy::loss_parameters loss = loss_parameters_of(config);
  // The formula would name the cap, which is no key.
  const double highest = loss.negative_ratio_cap - 1;
  if (loss.clip_high > highest)
    return fail(errc::invalid_argument,
                "algorithm.clip_high is {}, but must lie in [0, {}]: a negative advantage never "
                "weighs more than {} times itself, so that a wider clip would mean nothing",
                loss.clip_high, highest, loss.negative_ratio_cap);
  const auto fault = policy::find_fault(loss);
  if (!fault) return {};
  for (const auto& [parameter, key] : keys_of_loss)
    if (parameter == fault->parameter)
      return fail(errc::invalid_argument, "{} {}", key, fault->text);
  return fail(errc::invalid_argument, "algorithm.preset is {}: {} {}", config.algorithm.preset,
              fault->parameter, fault->text);
}

base::expected<std::vector<std::int64_t>> learner_devices(const run_config& config) {
  QUERN_TRY(const placement where, placement_of(config));
  std::vector<std::int64_t> devices;
  if (is_search(config)) return devices;
  const auto taken = [&](std::int64_t number) {
    for (std::size_t i = 0; i < devices.size() && devices.size() < where.ranks.size(); ++i)
      if (devices[i] == number && where.ranks[i] == where.ranks[devices.size()]) return true;
    return false;
  };
  std::string_view rest = config.learner.devices;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    std::int64_t number = -1;
    const auto [end, code] = std::from_chars(one.data(), one.data() + one.size(), number);
    if (code != std::errc() || end != one.data() + one.size() || number < 0 || taken(number))
      return base::fail(base::errc::invalid_argument,
                        "learner.devices is '{}': numbers of different GPUs with commas between "
                        "are needed",
                        config.learner.devices);
    devices.push_back(number);
  }
  if (devices.empty())
    for (std::size_t rank = 0; rank < where.ranks.size(); ++rank)
      devices.push_back(std::count(where.ranks.begin(),
                                   where.ranks.begin() + static_cast<std::ptrdiff_t>(rank),
                                   where.ranks[rank]));
  if (std::ssize(devices) != config.learner.ranks)
    return base::fail(base::errc::invalid_argument,
                      "learner.devices names {} GPUs, but learner.ranks is {}: one GPU a rank",
                      devices.size(), config.learner.ranks);
  return devices;
}

base::expected<bool> weights_by_link(const run_config& config) {
  if (is_search(config)) return false;
  const bool asked = config.actors.weights == "link";
  const bool learner_on_gpu = config.learner.device == "cuda",
             generator_on_gpu = config.actors.generator_device == "cuda";
  QUERN_TRY(const placement where, placement_of(config));
  // The memory through which weights go is control's: two on another host do not have it.
  const bool shared = where.generator.empty() && where.ranks.front().empty();
  const auto place = [&](const std::string& host) { return host.empty() ? "here" : "on " + host; };
  const std::string apart = fmt::format("the learner's rank 0 is {} and the generator {}",
                                        place(where.ranks.front()), place(where.generator));
  if (config.actors.weights == "memory" && !shared)
    return base::fail(base::errc::invalid_argument,
                      "actors.weights is memory, which is this machine's, but {}: set "
                      "actors.weights to auto or link, or let both live here",
                      apart);
  if (config.actors.weights == "memory") return false;
  if (!learner_on_gpu && !generator_on_gpu) return asked || !shared;
  if (learner_on_gpu != generator_on_gpu) {
    if (!shared)
      return base::fail(base::errc::invalid_argument,
                        "learner.device is {} and actors.generator_device is {}, but {}: weights "
                        "go there over a link, which joins two GPUs, or two processes on the CPU; "
                        "set both to cuda or both to cpu, or let both live here",
                        config.learner.device, config.actors.generator_device, apart);
    if (!asked) return false;
    return base::fail(base::errc::invalid_argument,
                      "actors.weights is link, but learner.device is {} and "
                      "actors.generator_device is {}: a link joins two GPUs, or two processes on "
                      "the CPU; set both to cuda, or actors.weights to memory",
                      config.learner.device, config.actors.generator_device);
  }
  QUERN_TRY(const auto devices, learner_devices(config));
  const std::int64_t gpu = config.actors.generator_gpu;
  // Rank 0 sends, so NCCL minds nobody else's GPU. But where evaluators have it by turns, rank 1
  // may keep the generator's turn while it waits for rank 0, which waits for what it sends.
  bool others = false;
  for (std::size_t rank = 1; rank < devices.size(); ++rank)
    others |= devices[rank] == gpu && where.ranks[rank] == where.generator;
  QUERN_TRY(const auto measuring, measuring_gpus(config, where.generator));
  const bool by_turns = !measuring.empty();
  const bool different = where.generator != where.ranks.front() || gpu != devices.front();
  if (different && !(others && by_turns)) return true;
  if (!asked && shared) return false;
  if (different)
    return base::fail(
        base::errc::invalid_argument,
        "actors.weights is {}, but actors.generator_gpu is {}, which a rank of the "
        "learner has, too, while evaluators of this run measure on GPUs; name "
        "another one, or {}",
        config.actors.weights, gpu,
        shared ? "set actors.weights to memory" : "let generator and rank 0 live here");
  if (!shared)
    return base::fail(base::errc::invalid_argument,
                      "{}, both with GPU {}: weights go there over a link, and NCCL refuses both "
                      "ends on one GPU; name another one in actors.generator_gpu, or let both live "
                      "here",
                      apart, gpu);
  return base::fail(base::errc::invalid_argument,
                    "actors.weights is link, but actors.generator_gpu is {}, which is that of the "
                    "learner's rank 0, too: NCCL refuses both ends on one GPU; name another one, "
                    "or set actors.weights to memory",
                    gpu);
}

base::expected<std::int64_t> learner_bytes_beside_generator(const run_config& config,
                                                            const policy::model_config& model) {
  if (config.learner.device != "cuda" || config.actors.generator_device != "cuda") return 0;
  QUERN_TRY(const placement where, placement_of(config));
  QUERN_TRY(const auto devices, learner_devices(config));
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    if (where.ranks[rank] == where.generator && devices[rank] == config.actors.generator_gpu)
      return policy::plan_learner(model, learner_demand_of(config)).total();
  return 0;
}

policy::learner_demand learner_demand_of(const run_config& config) {
  const std::int64_t longest = config.policy.max_prompt_tokens + config.policy.max_new_tokens;
  const bool tuning = config.stage == "sft";
  policy::learner_demand demand;
  demand.ranks = config.learner.ranks;
  demand.weight_bytes = config.learner.precision == "bfloat16" ? 2 : 4;
  demand.longest_sequence = longest;
  const std::int64_t samples = tuning
                                   ? config.learner.batch_samples
                                   : config.algorithm.groups_per_step * config.algorithm.group_size;
  demand.sequences = samples + (tuning ? 0 : config.algorithm.groups_per_step);
  demand.shared_prompt =
      !tuning && config.algorithm.group_size > 1 ? config.policy.max_prompt_tokens : 0;
  demand.micro_batch_tokens = std::min(config.learner.micro_batch_tokens, longest * samples);
  demand.loss_chunk = config.learner.loss_chunk;
  demand.threads = config.learner.threads;
  demand.recompute =
      policy::parse_recompute(config.learner.recompute).value_or(policy::recompute_mode::none);
  demand.reference = !tuning && config.algorithm.kl_weight > 0;
  demand.exact = !tuning && config.actors.exact;
  demand.links = !tuning && weights_by_link(config).value_or(false);
  demand.gpu = config.learner.device == "cuda";
  return demand;
}

}  // namespace quern::actors
