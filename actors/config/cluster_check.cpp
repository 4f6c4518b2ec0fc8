#include "actors/config/cluster_check.hpp"

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/config/launch.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "policy/collectives/rendezvous_directory.hpp"

namespace quern::actors {

base::status check_cluster(const run_config& config) {
  QUERN_TRY(const placement where, placement_of(config));
  if (!where.spread()) return {};
  QUERN_CHECK(launch_program(config.cluster.launch));
  QUERN_TRY(const auto addresses, addresses_of(config, where));
  // Listens for a moment: what is wrong with the address shows now.
  if (auto listening = policy::rendezvous_directory::open(addresses.at("")); !listening)
    return base::fail(base::errc::invalid_argument,
                      "cluster.address is '{}': this machine cannot listen there: {}; name an "
                      "address of its own",
                      config.cluster.address, listening.error().message);
  return {};
}

std::string describe_hosts(const run_config& config) {
  const auto where = placement_of(config);
  if (!where || !where->spread()) return "";
  const auto addresses = addresses_of(config, *where);
  const auto place = [&](const std::string& host) {
    const std::string name = host.empty() ? fmt::format("here, {}", config.cluster.address) : host;
    const std::string address = addresses ? addresses->at(host) : "";
    const bool told = address.empty() || address == host || address == config.cluster.address;
    return told ? name : fmt::format("{} ({})", name, address);
  };
  const auto line = [&](const std::string& role, const std::string& host, const std::string& gpu) {
    return fmt::format("#   {:<14}{}{}\n", role, place(host), gpu.empty() ? "" : ", GPU " + gpu);
  };
  std::string text = fmt::format("# hosts, reached by `{}`:\n", config.cluster.launch);
  text += line("control", "", "");
  const auto devices = learner_devices(config);
  for (std::size_t rank = 0; rank < where->ranks.size(); ++rank)
    text +=
        line(fmt::format("rank {}", rank), where->ranks[rank],
             config.learner.device == "cuda" && devices ? std::to_string((*devices)[rank]) : "");
  text += line(
      config.actors.generators == 1 ? "generator"
                                    : fmt::format("{} generators", config.actors.generators),
      where->generator,
      config.actors.generator_device == "cuda" ? std::to_string(config.actors.generator_gpu) : "");
  for (std::size_t i = 0; i < where->evaluators.size(); ++i) {
    const auto gpu = gpu_of_evaluator(config, static_cast<std::int64_t>(i));
    text += line(fmt::format("evaluator {}", i), where->evaluators[i],
                 on_gpus(config) && gpu ? std::to_string(*gpu) : "");
  }
  return text;
}

}  // namespace quern::actors
