#include "actors/processes.hpp"

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/config/learner_setup.hpp"
#include "base/program.hpp"

namespace quern::actors {

namespace {

/// One process a rank: "learner" is rank 0, the others are learner-1 and so on. Each sees the GPU
/// that is its own and no other.
base::status plan_ranks(const run_config& config, const storage::run_paths& paths,
                        const process_plan& first, std::vector<process_plan>& plans) {
  QUERN_TRY(const auto devices, learner_devices(config));
  for (std::int64_t rank = 0; rank < config.learner.ranks; ++rank) {
    process_plan plan = first;
    if (rank > 0) {
      plan.role = fmt::format("{}-{}", first.role, rank);
      plan.spec.log = paths.log_of(plan.role);
    }
    if (config.learner.ranks > 1)
      plan.spec.argv.insert(plan.spec.argv.end(), {"--rank", fmt::format("{}", rank)});
    if (config.learner.device == "cuda")
      plan.spec.environment.push_back(
          fmt::format("CUDA_VISIBLE_DEVICES={}", devices[static_cast<std::size_t>(rank)]));
    plans.push_back(std::move(plan));
  }
  return {};
}

}  // namespace

base::expected<std::vector<process_plan>> plan_processes(const run_config& config,
                                                         const storage::run_paths& paths,
                                                         std::uint16_t port,
                                                         const std::string& gateway,
                                                         const std::vector<std::string>& workers) {
  std::vector<process_plan> plans;
  QUERN_TRY(const auto torch, base::sibling_program("quern-torch"));
  QUERN_TRY(const auto quern, base::sibling_program("quern"));
  const std::string address = fmt::format("127.0.0.1:{}", port);
  QUERN_TRY(const bool links, weights_by_link(config));
  for (const std::string& role : workers) {
    process_plan one = {
        role,
        {.argv = {torch.string(), role, "--control", address, "--config", paths.config().string()},
         .log = paths.log_of(role)}};
    // In-fabric reductions need a service that shared hosts may lack.
    if (links || config.learner.ranks > 1) one.spec.environment.emplace_back("NCCL_NVLS_ENABLE=0");
    if (role == "learner") {
      QUERN_CHECK(plan_ranks(config, paths, one, plans));
    } else {
      plans.push_back(one);
      if (config.actors.generator_device == "cuda")
        plans.back().spec.environment.push_back(
            fmt::format("CUDA_VISIBLE_DEVICES={}", config.actors.generator_gpu));
    }
  }
  QUERN_TRY(const std::vector<int> gpus, gpus_of(config));
  for (std::int64_t i = 0; i < config.env.evaluators; ++i) {
    const std::string role = fmt::format("evaluator-{}", i);
    plans.push_back(
        {role,
         {.argv = {quern.string(), "evaluator", "--connect", gateway, "--sandbox",
                   config.env.sandbox, "--time-budget", fmt::format("{}", config.env.time_budget_s),
                   "--precision", fmt::format("{}", config.env.precision), "--noise-limit",
                   fmt::format("{}", config.env.noise_limit), "--static-screen",
                   config.env.static_screen ? "on" : "off", "--core",
                   fmt::format("{}", config.env.core), "--log-level", config.observe.log_level},
          .log = paths.log_of(role)}});
    if (lane_of(config) == env::lane::cuda) {
      const int gpu = gpus[static_cast<std::size_t>(i) % gpus.size()];
      plans.back().spec.argv.insert(plans.back().spec.argv.end(), {"--gpus", std::to_string(gpu)});
    }
  }
  return plans;
}

gateway_options local_gateway(const run_config& config, const std::string& hosts_socket,
                              epoch_id epoch) {
  gateway_options options;
  options.endpoints = {"ipc://" + hosts_socket};
  options.epoch = epoch;
  options.lease_ms = static_cast<std::int64_t>(config.actors.lease_s * 1000);
  options.heartbeat_ms = static_cast<std::int64_t>(config.actors.heartbeat_s * 1000);
  return options;
}

restart_limits restart_limits_of(const run_config& config) {
  restart_limits limits;
  limits.most = static_cast<int>(config.actors.restarts);
  limits.window_ns = static_cast<base::nanoseconds_t>(config.actors.restart_window_s * 1e9);
  return limits;
}

}  // namespace quern::actors
