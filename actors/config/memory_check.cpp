#include "actors/config/memory_check.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "actors/config/gpus.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "base/host_memory.hpp"
#include "base/text.hpp"
#include "env/device/gpu_probe.hpp"
#include "policy/weights/weight_channel.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

/// CUDA's context and libraries, as the generator reckons (policy/engine/paged_engine.cpp).
constexpr std::int64_t generator_libraries = std::int64_t{1} << 30;

bool tunes(const run_config& config) {
  return config.stage == "sft";
}

bool learns_on_gpu(const run_config& config, const machine_memory& machine) {
  return config.learner.device == "cuda" ||
         (tunes(config) && config.learner.device == "auto" && machine.driver);
}

bool generates_on_gpu(const run_config& config) {
  return !tunes(config) && config.actors.generator_device == "cuda";
}

/// A version of the weights in a file, which has the learner's precision; 0: they are in none.
std::int64_t bytes_of_file(const run_config& config, const policy::model_config& model) {
  if (tunes(config) || is_search(config) || weights_by_link(config).value_or(true)) return 0;
  return (config.learner.precision == "bfloat16" ? 2 : 4) * policy::parameter_count(model);
}

/// Files of new weights at once: each generator may still read one that was replaced.
std::int64_t weight_files(const run_config& config) {
  return policy::published_copies + config.actors.generators - 1;
}

/// Host memory of a generator on a GPU: where new weights come as files, they pass through a copy
/// there (workers/weight_file_reader).
std::int64_t weights_on_their_way(const run_config& config, const policy::model_config& model) {
  return generates_on_gpu(config) ? bytes_of_file(config, model) : 0;
}

std::string show_size(std::int64_t bytes) {
  return base::human_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

/// 0: not known.
std::int64_t size_of_gpu(const machine_memory& machine, std::int64_t number) {
  const auto index = static_cast<std::size_t>(number);
  return number >= 0 && index < machine.gpus.size() ? machine.gpus[index] : 0;
}

policy::learner_demand rank_demand(const run_config& config, const machine_memory& machine) {
  policy::learner_demand demand = learner_demand_of(config);
  demand.gpu = learns_on_gpu(config, machine);
  return demand;
}

base::status check_shared(const run_config& config, const policy::model_config& model,
                          const machine_memory& machine) {
  const std::int64_t file = bytes_of_file(config, model), needed = weight_files(config) * file;
  if (!machine.shared || needed <= static_cast<std::int64_t>(*machine.shared)) return {};
  return fail(
      errc::exhausted,
      "new weights go to the generator through files in {}, which has {} free; {} are "
      "needed ({} versions of {}): remove files there (folders quern-weights.* of runs that "
      "are gone), make it larger (mount -o remount,size=..., --shm-size of a container), or "
      "set actors.weights to link",
      machine.shared_place, show_size(static_cast<std::int64_t>(*machine.shared)),
      show_size(needed), weight_files(config), show_size(file));
}

std::string smaller_model(const run_config& config) {
  return tunes(config) ? "a smaller model (policy.layers, policy.width, policy.mlp_width)"
                       : "a smaller policy.model";
}

/// What the plan does not propose by itself, where it alone is enough.
std::string other_ways(const run_config& config, const policy::model_config& model,
                       const policy::learner_demand& demand, std::int64_t available) {
  std::string ways;
  const auto add = [&](std::string_view setting, const policy::learner_demand& changed) {
    if (policy::plan_learner(model, changed).total() <= available)
      ways += fmt::format("{}, or ", setting);
  };
  if (demand.threads > 1) {
    policy::learner_demand alone = demand;
    alone.threads = 1;
    add("learner.threads=1", alone);
  }
  if (demand.weight_bytes > 2) {
    policy::learner_demand half = demand;
    half.weight_bytes = 2;
    add("learner.precision=bfloat16", half);
  }
  return fmt::format("; or take {}{}", ways, smaller_model(config));
}

base::status check_rank(const run_config& config, const policy::model_config& model,
                        const machine_memory& machine, std::int64_t available,
                        const std::string& where) {
  const policy::learner_demand demand = rank_demand(config, machine);
  const auto fits = policy::check_learner(model, demand, available);
  if (fits) return {};
  return fail(errc::exhausted, "{}: {}{}", where, fits.error().message,
              other_ways(config, model, demand, available));
}

/// Bytes of the generator's GPU that are left for one sequence of its cache and what it needs
/// beside that: of what is left over it takes four fifths for its pages.
std::int64_t left_for_cache(const policy::model_config& model, const policy::generator_demand& one,
                            std::int64_t available) {
  policy::generator_demand none = one;
  none.slots = 0;
  const std::int64_t cache =
      policy::plan_generator(model, one).total() - policy::plan_generator(model, none).total();
  return available - generator_libraries - cache / 4;
}

base::status check_generator_on_gpu(const run_config& config, const policy::model_config& model,
                                    const machine_memory& machine) {
  const std::int64_t size = size_of_gpu(machine, config.actors.generator_gpu);
  if (size == 0) return {};
  QUERN_TRY(const std::int64_t beside, learner_bytes_beside_generator(config, model));
  // With room for fewer sequences than would decode together the others wait: slower, not wrong.
  policy::generator_demand one = generator_demand_of(config, model);
  one.slots = 1;
  const auto fits = policy::check_generator(model, one, left_for_cache(model, one, size - beside));
  if (fits) return {};
  return fail(
      errc::exhausted,
      "actors.generator_gpu is {}, which has {}{}; beside libraries and workspaces {}; lower "
      "policy.max_new_tokens or policy.max_prompt_tokens, {}{}or take a smaller policy.model",
      config.actors.generator_gpu, show_size(size),
      beside > 0
          ? fmt::format(", of which a rank of the learner plans to hold {}", show_size(beside))
          : std::string(),
      fits.error().message,
      config.actors.generator_precision == "float32"
          ? "set actors.generator_precision to bfloat16, "
          : "",
      beside > 0 ? "give it a GPU of its own, " : "");
}

/// Its cache has room for all sequences from the start, unlike that on a GPU.
base::status check_generator_on_cpu(const run_config& config, const policy::model_config& model,
                                    const machine_memory& machine) {
  const std::int64_t count = config.actors.generators;
  const auto fits =
      policy::check_generator(model, generator_demand_of(config, model), machine.host / count);
  if (fits) return {};
  return fail(errc::exhausted, "actors.generator_device is cpu, and this machine has {}{}: {}",
              show_host(machine),
              count == 1 ? "" : fmt::format(" for {} generators (actors.generators)", count),
              fits.error().message);
}

std::int64_t ranks_here(const placement& where) {
  return std::count(where.ranks.begin(), where.ranks.end(), "");
}

/// What all roles that are here hold of the machine's own memory at most.
policy::memory_plan plan_host(const run_config& config, const policy::model_config& model,
                              const machine_memory& machine, const placement& where) {
  policy::memory_plan plan;
  const std::int64_t ranks = ranks_here(where);
  const policy::learner_demand demand = rank_demand(config, machine);
  if (ranks > 0 && !learns_on_gpu(config, machine))
    plan.items.push_back({ranks == 1 ? "learner" : fmt::format("{} learner ranks", ranks),
                          ranks * policy::plan_learner(model, demand).total(),
                          "learner.recompute, learner.micro_batch_tokens"});
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const bool writes_weights = rank == 0 && where.ranks.front().empty();
    const std::int64_t bytes = policy::plan_checkpoint(model, demand, writes_weights).total();
    if (rank == 0)
      plan.items.push_back({"checkpoint on its way to files", bytes, ""});
    else
      plan.items.back().bytes += bytes;
  }
  if (!tunes(config) && where.generator.empty()) {
    const std::string generators = config.actors.generators == 1
                                       ? "generator: "
                                       : fmt::format("{} generators: ", config.actors.generators);
    if (!generates_on_gpu(config))
      for (auto& item : policy::plan_generator(model, generator_demand_of(config, model)).items)
        plan.items.push_back(
            {generators + item.purpose, config.actors.generators * item.bytes, item.setting});
    plan.items.push_back({"new weights on their way to the generator's GPU",
                          weights_on_their_way(config, model), "actors.weights"});
  }
  if (machine.shared)
    plan.items.push_back({fmt::format("{} files of new weights", weight_files(config)),
                          weight_files(config) * bytes_of_file(config, model), "actors.weights"});
  return plan;
}

/// Settings of which one is enough, "KEY=VALUE, or " each.
std::string ways_to_fit_host(const run_config& config, const policy::model_config& model,
                             const machine_memory& machine, const placement& where) {
  const auto fits = [&](const run_config& changed) {
    return plan_host(changed, model, machine, where).total() <= machine.host;
  };
  std::string ways;
  run_config changed = config;
  changed.learner.recompute = "full";
  if (fits(changed)) ways += "learner.recompute=full, or ";
  changed = config;
  constexpr std::int64_t fewest_tokens = 256;
  while (!fits(changed) && changed.learner.micro_batch_tokens / 2 >= fewest_tokens)
    changed.learner.micro_batch_tokens /= 2;
  if (fits(changed))
    ways += fmt::format("learner.micro_batch_tokens={}, or ", changed.learner.micro_batch_tokens);
  changed = config;
  while (!fits(changed) && changed.algorithm.groups_per_step > 1)
    --changed.algorithm.groups_per_step;
  if (fits(changed))
    ways += fmt::format("algorithm.groups_per_step={}, or ", changed.algorithm.groups_per_step);
  return ways;
}

/// A machine without the GPUs that are asked for is not the one that the run will be on.
bool lacks_gpus(const run_config& config, const machine_memory& machine, const placement& where) {
  return !machine.driver && ((ranks_here(where) > 0 && learns_on_gpu(config, machine)) ||
                             (where.generator.empty() && generates_on_gpu(config)));
}

/// All roles together.
base::status check_sum(const run_config& config, const policy::model_config& model,
                       const machine_memory& machine, const placement& where) {
  if (lacks_gpus(config, machine, where)) return {};
  const policy::memory_plan plan = plan_host(config, model, machine, where);
  if (plan.total() <= machine.host) return {};
  const std::string ways = ways_to_fit_host(config, model, machine, where);
  return fail(errc::exhausted,
              "the roles of the run on this machine plan to hold {} of its own memory together, it "
              "has {}:\n{}{}put a role on another host, or take {}",
              show_size(plan.total()), show_host(machine), plan.table(machine.host),
              ways.empty() ? "no setting alone makes it fit: lower several that are named there, "
                           : fmt::format("it fits with {}", ways),
              smaller_model(config));
}

/// Lines of a plan, its sum, and what there is, where that is known.
std::string plan_lines(const policy::memory_plan& plan, const std::string& heading,
                       const std::string& of) {
  constexpr auto line = "#   {:<46}{:>12}  {}\n";
  std::string text = fmt::format("# {}:\n", heading);
  text += fmt::format(line, "held for", "at most", "keys that make it smaller");
  for (const policy::memory_item& item : plan.items)
    if (item.bytes > 0)
      text += fmt::format(line, item.purpose, show_size(item.bytes), item.setting);
  return text + fmt::format(line, "in all", show_size(plan.total()), of);
}

/// What the roles here hold of the machine's own memory.
std::string sum_line(const run_config& config, const policy::model_config& model,
                     const machine_memory& machine, const placement& where) {
  if (machine.host == 0 || lacks_gpus(config, machine, where)) return {};
  return fmt::format("# memory of this machine, all roles that are here together: {} of {}\n",
                     show_size(plan_host(config, model, machine, where).total()),
                     show_host(machine));
}

std::string of_gpu(const machine_memory& machine, std::int64_t number, bool here) {
  const std::int64_t size = here ? size_of_gpu(machine, number) : 0;
  return size == 0 ? std::string() : fmt::format("of {} on GPU {}", show_size(size), number);
}

}  // namespace

std::string show_host(const machine_memory& machine) {
  return show_size(machine.host) + " of host memory" +
         (machine.host_limit.empty()
              ? std::string()
              : fmt::format(" (the limit of its control group, {})", machine.host_limit));
}

machine_memory memory_here(const run_config& config) {
  machine_memory machine;
  const base::host_memory own = base::own_host_memory();
  machine.host = own.bytes;
  machine.host_limit = own.limit;
  machine.driver = env::has_nvidia_driver();
  if (learns_on_gpu(config, machine) || generates_on_gpu(config)) machine.gpus = gpu_memory();
  if (const auto shared = policy::shared_memory_folder()) {
    std::error_code code;
    const std::filesystem::space_info room = std::filesystem::space(*shared, code);
    machine.shared_place = shared->string();
    if (!code) machine.shared = room.available;
  }
  return machine;
}

policy::generator_demand generator_demand_of(const run_config& config,
                                             const policy::model_config& model) {
  const bool on_gpu = generates_on_gpu(config);
  const std::int64_t own = on_gpu && config.actors.generator_precision == "bfloat16" ? 2 : 4,
                     next = on_gpu && config.learner.precision == "bfloat16" ? 2 : 4;
  policy::generator_demand demand;
  // The weights in use are in its own precision, those of the next version in the learner's.
  demand.weight_bytes = (own + next) / 2;
  demand.value_bytes = own;
  // As generation_worker::make.
  demand.slots = 2 * config.algorithm.groups_per_step * config.algorithm.group_size;
  demand.capacity =
      std::min(model.max_positions, config.policy.max_prompt_tokens + config.policy.max_new_tokens);
  return demand;
}

base::status check_memory(const run_config& config, const policy::model_config& model,
                          const machine_memory& machine) {
  QUERN_TRY(const placement where, placement_of(config));
  QUERN_TRY(const auto devices, learner_devices(config));
  const std::int64_t here = ranks_here(where);
  const bool on_gpu = learns_on_gpu(config, machine);
  for (std::size_t rank = 0; on_gpu && rank < devices.size(); ++rank) {
    const std::int64_t size = size_of_gpu(machine, devices[rank]);
    if (size == 0 || !where.ranks[rank].empty()) continue;
    QUERN_CHECK(check_rank(config, model, machine, size,
                           fmt::format("learner.device is {}, rank {} has GPU {}",
                                       config.learner.device, rank, devices[rank])));
  }
  if (here > 0 && !on_gpu)
    QUERN_CHECK(
        check_rank(config, model, machine, machine.host / here,
                   fmt::format("learner.device is {}, {} here", config.learner.device,
                               here == 1 ? "the learner is" : fmt::format("{} ranks are", here))));
  if (here > 0 && (!on_gpu || machine.driver)) {
    const std::int64_t passing = where.generator.empty() ? weights_on_their_way(config, model) : 0;
    auto fits = policy::check_host(model, rank_demand(config, machine), here,
                                   where.ranks.front().empty(), machine.host - passing);
    if (!fits && passing > 0)
      return base::in_context(fmt::format("of {} {} are the generator's for new weights on their "
                                          "way to its GPU",
                                          show_host(machine), show_size(passing)),
                              std::move(fits.error()));
    QUERN_CHECK(fits);
  }
  if (!tunes(config) && where.generator.empty())
    QUERN_CHECK(generates_on_gpu(config) ? check_generator_on_gpu(config, model, machine)
                                         : check_generator_on_cpu(config, model, machine));
  QUERN_CHECK(check_sum(config, model, machine, where));
  // Last: room for the files of a model that fits nowhere is no help.
  return check_shared(config, model, machine);
}

std::string describe_memory(const run_config& config, const policy::model_config& model,
                            const machine_memory& machine) {
  const auto where = placement_of(config);
  const auto devices = learner_devices(config);
  if (!where || !devices) return {};
  std::string text;
  if (!is_search(config)) {
    const policy::learner_demand demand = rank_demand(config, machine);
    const bool alone = config.learner.ranks == 1;
    text += plan_lines(policy::plan_learner(model, demand),
                       fmt::format("memory of {}", alone ? "the learner" : "a learner rank"),
                       demand.gpu ? of_gpu(machine, devices->front(), where->ranks.front().empty())
                                  : std::string());
    text += plan_lines(policy::plan_checkpoint(model, demand, /*writes_weights=*/true),
                       fmt::format("host memory of {} while a checkpoint is made, beside that",
                                   alone ? "the learner" : "rank 0"),
                       "");
  }
  if (tunes(config)) return text + sum_line(config, model, machine, *where);
  const bool on_gpu = generates_on_gpu(config);
  policy::memory_plan plan = policy::plan_generator(model, generator_demand_of(config, model));
  if (on_gpu) plan.items.push_back({"libraries of the GPU", generator_libraries, ""});
  text += plan_lines(
      plan,
      on_gpu ? "memory of the generator, at most: with less room fewer sequences decode together"
             : (config.actors.generators == 1 ? "memory of the generator"
                                              : "memory of each generator"),
      on_gpu ? of_gpu(machine, config.actors.generator_gpu, where->generator.empty()) : "");
  if (const std::int64_t passing = weights_on_their_way(config, model); passing > 0)
    text += plan_lines({{{"new weights on their way", passing, "actors.weights=link"}}},
                       "host memory of the generator, beside that", "");
  return text + sum_line(config, model, machine, *where);
}

std::string warning_of_threads(const run_config& config, const machine_memory& machine) {
  if (config.learner.threads == 1 || !learns_on_gpu(config, machine)) return {};
  return fmt::format(
      "learner.threads is {}, but the learner computes on a GPU, for which its threads wait in "
      "turn, each with gradients and activations of its own: more memory, no more speed; set "
      "learner.threads to 1",
      config.learner.threads);
}

}  // namespace quern::actors
