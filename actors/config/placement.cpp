#include "actors/config/placement.hpp"

#include <algorithm>

#include <netdb.h>
#include <sys/socket.h>

#include "actors/config/device_class.hpp"
#include "actors/config/launch.hpp"
#include "base/text.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

constexpr const char* own_loopback = "127.0.0.1";

/// "" for this machine. Names go into a command line and into addresses.
base::expected<std::string> host_of(const run_config& config, std::string_view key,
                                    std::string_view word) {
  const std::string name(base::trim(word));
  if (name == config.cluster.address) return "";
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':';
  };
  if (!name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), plain))
    return name;
  return fail(errc::invalid_argument,
              "{}: '{}' is no name of a host: letters, digits and . - _ : are possible (a user, a "
              "port and the like belong into cluster.launch)",
              key, name);
}

base::expected<std::vector<std::string>> hosts_of(const run_config& config, std::string_view key,
                                                  const std::string& list) {
  std::vector<std::string> hosts;
  if (base::trim(list).empty()) return hosts;
  for (const std::string_view word : base::split(list, ',')) {
    QUERN_TRY(std::string host, host_of(config, key, word));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

base::expected<std::string> numeric_address(const std::string& name) {
  int code = 0;
  // The run speaks one family: a name with both has the one that is everywhere.
  for (const int family : {AF_INET, AF_INET6}) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    code = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
    if (code != 0) continue;
    char text[NI_MAXHOST] = "";
    code = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0,
                         NI_NUMERICHOST);
    ::freeaddrinfo(found);
    if (code == 0) return std::string(text);
  }
  return fail(errc::invalid_argument, "this machine knows no address of it ({})",
              ::gai_strerror(code));
}

/// "All addresses of this machine": to listen at, not to reach.
bool is_any(const std::string& address) {
  return address == "0.0.0.0" || address == "::";
}

bool is_ipv6(const std::string& address) {
  return address.find(':') != std::string::npos;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

std::vector<std::string> placement::others() const {
  std::vector<std::string> all = ranks;
  all.push_back(generator);
  all.insert(all.end(), evaluators.begin(), evaluators.end());
  std::vector<std::string> found;
  for (const std::string& host : all)
    if (!host.empty() && std::find(found.begin(), found.end(), host) == found.end())
      found.push_back(host);
  return found;
}

std::int64_t placement::ranks_beside(std::int64_t rank) const {
  return std::count(ranks.begin(), ranks.end(), ranks.at(static_cast<std::size_t>(rank)));
}

bool placement::beside_first(std::int64_t rank) const {
  return ranks.at(static_cast<std::size_t>(rank)) == ranks.front();
}

base::expected<placement> placement_of(const run_config& config) {
  placement made;
  if (!is_search(config)) made.ranks.resize(static_cast<std::size_t>(config.learner.ranks));
  made.evaluators.resize(static_cast<std::size_t>(config.env.evaluators));
  if (config.stage == "sft") return made;
  QUERN_TRY(auto ranks, hosts_of(config, "learner.hosts", config.learner.hosts));
  if (is_search(config)) ranks.clear();
  if (!ranks.empty() && std::ssize(ranks) != config.learner.ranks)
    return fail(errc::invalid_argument,
                "learner.hosts names {} hosts, but learner.ranks is {}: one name a rank is needed; "
                "a host with several ranks stands there several times",
                ranks.size(), config.learner.ranks);
  if (!ranks.empty()) made.ranks = ranks;
  if (!config.actors.generator_host.empty()) {
    QUERN_TRY(made.generator,
              host_of(config, "actors.generator_host", config.actors.generator_host));
  }
  QUERN_TRY(const auto evaluators,
            hosts_of(config, "env.evaluator_hosts", config.env.evaluator_hosts));
  if (std::ssize(evaluators) > config.env.evaluators)
    return fail(errc::invalid_argument,
                "env.evaluator_hosts names {} hosts, but env.evaluators is {}: start at least one "
                "for each host",
                evaluators.size(), config.env.evaluators);
  for (std::size_t i = 0; i < made.evaluators.size() && !evaluators.empty(); ++i)
    made.evaluators[i] = evaluators[i % evaluators.size()];
  const auto others = made.others();
  if (others.empty()) return made;
  if (config.cluster.address.empty())
    return fail(errc::invalid_argument,
                "a role is to live on {}, but cluster.address is empty: name the address of this "
                "machine by which the other hosts reach it",
                others.front());
  QUERN_CHECK(check_launch(config.cluster.launch));
  return made;
}

base::expected<int> gpu_of_evaluator(const run_config& config, std::int64_t number) {
  QUERN_TRY(const std::vector<int> gpus, gpus_of(config));
  QUERN_TRY(const placement where, placement_of(config));
  const auto first = where.evaluators.begin();
  const auto before =
      std::count(first, first + number, where.evaluators.at(static_cast<std::size_t>(number)));
  return gpus[static_cast<std::size_t>(before) % gpus.size()];
}

base::expected<std::vector<int>> measuring_gpus(const run_config& config, const std::string& host) {
  std::vector<int> found;
  if (!on_gpus(config)) return found;
  QUERN_TRY(const placement where, placement_of(config));
  for (std::int64_t i = 0; i < config.env.evaluators; ++i) {
    if (where.evaluators[static_cast<std::size_t>(i)] != host) continue;
    QUERN_TRY(const int gpu, gpu_of_evaluator(config, i));
    found.push_back(gpu);
  }
  return found;
}

base::status check_addresses(const run_config& config,
                             const std::map<std::string, std::string>& addresses) {
  const auto own = addresses.find("");
  if (own == addresses.end()) return {};
  std::map<std::string, std::string> names;
  for (const auto& [name, address] : addresses) {
    const std::string known = name.empty() ? config.cluster.address : name;
    if (is_any(address))
      return fail(errc::invalid_argument,
                  "{} ({}) is every address of whoever uses it and leads nobody to a host: write "
                  "the address by which the other hosts reach it",
                  known, address);
    if (const auto [other, fresh] = names.emplace(address, known); !fresh)
      return fail(errc::invalid_argument,
                  "{} and {} are one host ({}): write one name; for this machine, the value of "
                  "cluster.address",
                  other->second, known, address);
    if (is_ipv6(address) != is_ipv6(own->second))
      return fail(
          errc::invalid_argument,
          "host {} is {} and cluster.address is {} ({}), one of IPv4 and one of IPv6: a run "
          "speaks one of them; write addresses of one kind",
          known, address, config.cluster.address, own->second);
    if (is_loopback(address) == is_loopback(own->second)) continue;
    if (is_loopback(address))
      return fail(errc::invalid_argument,
                  "host {} is {} here, where no other host reaches it, while cluster.address is "
                  "{} ({}): where it is this machine, write it as cluster.address; else mend "
                  "/etc/hosts",
                  name, address, config.cluster.address, own->second);
    return fail(errc::invalid_argument,
                "cluster.address is {} ({}), where host {} ({}) does not reach it: name an address "
                "of this machine on the network of the hosts",
                config.cluster.address, own->second, name, address);
  }
  return {};
}

base::expected<std::map<std::string, std::string>> addresses_of(const run_config& config,
                                                                const placement& where) {
  std::map<std::string, std::string> addresses;
  const auto others = where.others();
  if (others.empty()) return std::map<std::string, std::string>{{"", own_loopback}};
  const auto resolve = [&](const std::string& host, const std::string& name) -> base::status {
    auto address = numeric_address(name);
    if (!address)
      return fail(errc::invalid_argument, "{} '{}': {}; write a name or an address that it knows",
                  host.empty() ? "cluster.address is" : "the host", name, address.error().message);
    addresses[host] = *address;
    return {};
  };
  QUERN_CHECK(resolve("", config.cluster.address));
  for (const std::string& host : others)
    QUERN_CHECK(resolve(host, host));
  QUERN_CHECK(check_addresses(config, addresses));
  return addresses;
}

}  // namespace quern::actors
