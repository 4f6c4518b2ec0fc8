#include "actors/processes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/config/gpus.hpp"
#include "actors/config/learner_setup.hpp"
#include "base/program.hpp"
#include "env/plugin/key_file.hpp"

namespace quern::actors {

namespace {

namespace fs = std::filesystem;

bool evaluators_elsewhere(const placement& where) {
  return std::any_of(where.evaluators.begin(), where.evaluators.end(),
                     [](const std::string& host) { return !host.empty(); });
}

/// Key pairs of a run that nobody has to make. They stay: a host that shares the folder may show an
/// old file for a while after it was replaced.
base::expected<env::curve_keys> keys_in(const fs::path& file) {
  std::error_code ignored;
  if (fs::exists(file, ignored)) return env::read_key_file(file);
  return env::make_key_file(file);
}

fs::path keys_of_evaluators(const storage::run_paths& paths) {
  return paths.root / "evaluators.keys";
}

void settle_at(process_plan& plan, const run_config& config, const std::string& host) {
  plan.host = host;
  if (!host.empty()) plan.launch = config.cluster.launch;
}

/// A role of quern-torch on its host.
base::expected<process_plan> plan_worker(const run_config& config, const run_hosts& hosts,
                                         const storage::run_paths& paths,
                                         const run_admission& admission, const std::string& kind,
                                         const std::string& name, const std::string& host) {
  QUERN_TRY(const auto torch, base::sibling_program("quern-torch"));
  process_plan plan{name,
                    {.argv = {torch.string(), kind, "--control",
                              fmt::format("{}:{}", hosts.control(), admission.port), "--config",
                              paths.config().string()},
                     .log = paths.log_of(name),
                     .input = admission.secret + "\n"}};
  settle_at(plan, config, host);
  if (hosts.where.spread())
    plan.spec.argv.insert(plan.spec.argv.end(), {"--host", hosts.addresses.at(host)});
  QUERN_TRY(const bool links, weights_by_link(config));
  if (links || config.learner.ranks > 1) plan.spec.environment.emplace_back(without_nvls);
  return plan;
}

/// One process a rank: "learner" is rank 0, the others are learner-1 and so on. Each sees the GPU
/// that is its own and no other.
base::status plan_ranks(const run_config& config, const run_hosts& hosts,
                        const storage::run_paths& paths, const run_admission& admission,
                        std::vector<process_plan>& plans) {
  QUERN_TRY(const auto devices, learner_devices(config));
  for (std::int64_t rank = 0; rank < config.learner.ranks; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    const std::string name = rank == 0 ? "learner" : fmt::format("learner-{}", rank);
    QUERN_TRY(process_plan plan, plan_worker(config, hosts, paths, admission, "learner", name,
                                             hosts.where.ranks[place]));
    if (config.learner.ranks > 1)
      plan.spec.argv.insert(plan.spec.argv.end(), {"--rank", fmt::format("{}", rank)});
    if (config.learner.device == "cuda") {
      QUERN_TRY(std::string gpu, only_gpu(devices[place], plan.host));
      plan.spec.environment.push_back(std::move(gpu));
    }
    plans.push_back(std::move(plan));
  }
  return {};
}

/// "generator" is the first, the others are generator-1 and so on.
base::status plan_generators(const run_config& config, const run_hosts& hosts,
                             const storage::run_paths& paths, const run_admission& admission,
                             std::vector<process_plan>& plans) {
  for (std::int64_t number = 0; number < config.actors.generators; ++number) {
    const std::string name = number == 0 ? "generator" : fmt::format("generator-{}", number);
    QUERN_TRY(process_plan plan, plan_worker(config, hosts, paths, admission, "generator", name,
                                             hosts.where.generator));
    if (config.actors.generator_device == "cuda") {
      QUERN_TRY(std::string gpu, only_gpu(config.actors.generator_gpu, plan.host));
      plan.spec.environment.push_back(std::move(gpu));
    }
    plans.push_back(std::move(plan));
  }
  return {};
}

base::expected<process_plan> plan_evaluator(const run_config& config, const run_hosts& hosts,
                                            const storage::run_paths& paths,
                                            const run_admission& admission, std::int64_t number) {
  QUERN_TRY(const auto quern, base::sibling_program("quern"));
  const std::string name = fmt::format("evaluator-{}", number);
  const std::string& host = hosts.where.evaluators[static_cast<std::size_t>(number)];
  process_plan plan{
      name,
      {.argv = {quern.string(),
                "evaluator",
                "--connect",
                host.empty() ? admission.endpoints.front() : admission.endpoints.back(),
                "--lanes",
                config.env.lane,
                "--sandbox",
                config.env.sandbox,
                "--time-budget",
                fmt::format("{}", config.env.time_budget_s),
                "--precision",
                fmt::format("{}", config.env.precision),
                "--noise-limit",
                fmt::format("{}", config.env.noise_limit),
                "--evidence-share",
                fmt::format("{}", config.env.evidence_share),
                "--static-screen",
                config.env.static_screen ? "on" : "off",
                "--core",
                fmt::format("{}", config.env.core),
                "--log-level",
                config.observe.log_level},
       .log = paths.log_of(name)}};
  plan.says_hello = introduction::to_gateway;
  settle_at(plan, config, host);
  std::vector<std::string>& argv = plan.spec.argv;
  if (!host.empty())
    argv.insert(argv.end(), {"--keys", keys_of_evaluators(paths).string(), "--gateway-key",
                             admission.gateway_key, "--until-input-ends"});
  if (on_gpus(config)) {
    QUERN_TRY(const int gpu, gpu_of_evaluator(config, number));
    argv.insert(argv.end(), {"--gpus", std::to_string(gpu)});
  }
  return plan;
}

}  // namespace

base::expected<run_hosts> hosts_of_run(const run_config& config) {
  run_hosts made;
  QUERN_TRY(made.where, placement_of(config));
  QUERN_TRY(made.addresses, addresses_of(config, made.where));
  return made;
}

base::expected<std::vector<role>> plan_roles(const run_config& config, const run_hosts& hosts,
                                             const storage::run_paths& paths,
                                             const run_admission& admission,
                                             const std::vector<std::string>& workers) {
  std::vector<role> roles;
  for (const std::string& name : workers) {
    std::vector<process_plan> plans;
    QUERN_CHECK(name == "learner" ? plan_ranks(config, hosts, paths, admission, plans)
                                  : plan_generators(config, hosts, paths, admission, plans));
    roles.push_back(role_of(name, role_restarts::alone, std::move(plans)));
  }
  std::vector<process_plan> evaluators;
  for (std::int64_t i = 0; i < config.env.evaluators; ++i) {
    QUERN_TRY(process_plan plan, plan_evaluator(config, hosts, paths, admission, i));
    evaluators.push_back(std::move(plan));
  }
  roles.push_back(role_of("evaluator", role_restarts::aside, std::move(evaluators)));
  return roles;
}

base::expected<gateway_options> gateway_of(const run_config& config, const run_hosts& hosts,
                                           const storage::run_paths& paths,
                                           const std::string& hosts_socket,
                                           incarnation_id incarnation) {
  gateway_options options;
  options.endpoints = {"ipc://" + hosts_socket};
  options.incarnation = incarnation;
  options.run = config.run.name;
  options.lease_ms = static_cast<std::int64_t>(config.actors.lease_s * 1000);
  options.heartbeat_ms = static_cast<std::int64_t>(config.actors.heartbeat_s * 1000);
  const bool elsewhere = evaluators_elsewhere(hosts.where);
  if (config.env.bind.empty() && !elsewhere) return options;
  gateway_keys keys;
  if (!config.env.keys.empty()) {
    QUERN_TRY(keys.own, env::read_key_file(config.env.keys));
  } else {
    QUERN_TRY(keys.own, keys_in(paths.root / "gateway.keys"));
  }
  if (!config.env.bind.empty()) {
    options.endpoints.push_back(config.env.bind);
    QUERN_TRY(keys.hosts, env::read_public_keys(config.env.hosts));
  }
  if (elsewhere) {
    const std::string& own = hosts.control();
    options.endpoints.push_back(own.find(':') == std::string::npos
                                    ? fmt::format("tcp://{}:*", own)
                                    : fmt::format("tcp://[{}]:*", own));
    QUERN_TRY(const env::curve_keys pair, keys_in(keys_of_evaluators(paths)));
    keys.hosts.insert(pair.public_key);
  }
  options.keys = std::move(keys);
  return options;
}

run_admission admission_of(const gateway_options& opened, std::vector<std::string> endpoints) {
  run_admission made;
  made.endpoints = std::move(endpoints);
  if (opened.keys) made.gateway_key = opened.keys->own.public_key;
  return made;
}

restart_limits restart_limits_of(const run_config& config) {
  restart_limits limits;
  limits.most = static_cast<int>(config.actors.restarts);
  limits.window_ns = static_cast<base::nanoseconds_t>(config.actors.restart_window_s * 1e9);
  return limits;
}

}  // namespace quern::actors
