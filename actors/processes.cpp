#include "actors/processes.hpp"

#include <fmt/format.h>

#include "base/program.hpp"

namespace quern::actors {

base::expected<std::vector<process_plan>> plan_processes(const run_config& config,
                                                         const storage::run_paths& paths,
                                                         std::uint16_t port,
                                                         const std::string& gateway,
                                                         const std::vector<std::string>& workers) {
  std::vector<process_plan> plans;
  QUERN_TRY(const auto torch, base::sibling_program("quern-torch"));
  QUERN_TRY(const auto quern, base::sibling_program("quern"));
  const std::string address = fmt::format("127.0.0.1:{}", port);
  for (const std::string& role : workers) {
    plans.push_back(
        {role,
         {.argv = {torch.string(), role, "--control", address, "--config", paths.config().string()},
          .log = paths.log_of(role)}});
  }
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
  }
  return plans;
}

}  // namespace quern::actors
