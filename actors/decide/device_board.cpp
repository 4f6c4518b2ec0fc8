#include "actors/decide/device_board.hpp"

#include <algorithm>
#include <ctime>

#include <fmt/core.h>

namespace quern::actors {
namespace {

/// A line on a terminal names no more; `quern status` lists all.
constexpr std::size_t most_named = 8;

std::string device_text(const board_host& host, const board_device& device) {
  const std::string name = host.name.empty() ? "without a name" : host.name;
  return fmt::format("device {} ({}) of host {}{}", device.id, device.device_class, name,
                     host.pid > 0 ? fmt::format(" (process {})", host.pid) : "");
}

}  // namespace

std::string utc_text(std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

void device_board::joined(session_id session, board_host host) {
  const std::lock_guard lock(guard_);
  entry fresh{std::move(host), false, {}, {}};
  for (const board_device& device : fresh.host.devices) {
    const auto doubt = doubted_.find({fresh.host.name, device.id});
    if (doubt != doubted_.end()) fresh.on_trial[device.id] = doubt->second;
  }
  hosts_[session] = std::move(fresh);
}

void device_board::judged(session_id session, std::int64_t device) {
  const std::lock_guard lock(guard_);
  const auto at = hosts_.find(session);
  if (at == hosts_.end() || at->second.out.contains(device)) return;
  at->second.on_trial.erase(device);
  doubted_.erase({at->second.host.name, device});
}

void device_board::draining(session_id session) {
  const std::lock_guard lock(guard_);
  if (const auto at = hosts_.find(session); at != hosts_.end()) at->second.draining = true;
}

void device_board::left(session_id session) {
  const std::lock_guard lock(guard_);
  hosts_.erase(session);
}

board_changes device_board::troubles(session_id session,
                                     std::map<std::int64_t, board_trouble> out) {
  const std::lock_guard lock(guard_);
  board_changes changes;
  const auto at = hosts_.find(session);
  if (at == hosts_.end()) return changes;
  entry& known = at->second;
  for (const board_device& device : known.host.devices) {
    const auto before = known.out.find(device.id), now = out.find(device.id);
    const std::string text = device_text(known.host, device);
    if (now == out.end()) {
      if (before == known.out.end()) continue;
      changes.back.push_back({text, before->second});
      known.on_trial.erase(device.id);
      doubted_.erase({known.host.name, device.id});
      continue;
    }
    doubted_[{known.host.name, device.id}] = now->second.reason;
    if (before == known.out.end() || before->second.reason != now->second.reason) {
      changes.out.push_back({text, now->second});
    }
  }
  known.out = std::move(out);
  return changes;
}

bool device_board::entry::works() const {
  return !draining &&
         std::any_of(host.devices.begin(), host.devices.end(), [&](const board_device& device) {
           return !out.contains(device.id) && !on_trial.contains(device.id);
         });
}

std::size_t device_board::working() const {
  const std::lock_guard lock(guard_);
  return static_cast<std::size_t>(std::count_if(
      hosts_.begin(), hosts_.end(), [](const auto& one) { return one.second.works(); }));
}

std::string device_board::shortage() const {
  const std::lock_guard lock(guard_);
  std::string text;
  std::size_t out = 0;
  for (const auto& [session, known] : hosts_) {
    if (known.works()) return {};
    if (known.draining) continue;
    for (const board_device& device : known.host.devices) {
      const auto trouble = known.out.find(device.id);
      const auto trial = known.on_trial.find(device.id);
      const bool is_out = trouble != known.out.end();
      if ((!is_out && trial == known.on_trial.end()) || ++out > most_named) continue;
      text += fmt::format(
          "{}{} {}: {}", text.empty() ? "" : "; ", device_text(known.host, device),
          is_out ? "is in quarantine" : "has judged nothing since its host was in quarantine",
          is_out ? trouble->second.reason : trial->second);
    }
  }
  if (out > most_named) text += fmt::format("; and {} more", out - most_named);
  return text;
}

void device_board::set_aside(const std::string& role, board_trouble why) {
  const std::lock_guard lock(guard_);
  // Since when it has been so: the first of several tries.
  if (const auto known = aside_.find(role); known != aside_.end())
    why.since_unix_ns = known->second.since_unix_ns;
  aside_[role] = std::move(why);
}

void device_board::works_again(const std::string& role) {
  const std::lock_guard lock(guard_);
  aside_.erase(role);
}

base::json device_board::aside() const {
  const std::lock_guard lock(guard_);
  base::json all = base::json::array();
  for (const auto& [role, why] : aside_)
    all.push_back({{"role", role}, {"reason", why.reason}, {"since", utc_text(why.since_unix_ns)}});
  return all;
}

base::json device_board::snapshot() const {
  const std::lock_guard lock(guard_);
  base::json hosts = base::json::array();
  for (const auto& [session, known] : hosts_) {
    base::json devices = base::json::array();
    for (const board_device& device : known.host.devices) {
      base::json one = {{"device", device.id},
                        {"class", device.device_class},
                        {"state", known.draining ? "draining" : "ready"}};
      if (const auto out = known.out.find(device.id); out != known.out.end()) {
        one["state"] = "quarantined";
        one["reason"] = out->second.reason;
        one["since"] = utc_text(out->second.since_unix_ns);
      }
      devices.push_back(std::move(one));
    }
    hosts.push_back({{"session", fmt::format("{:x}", session)},
                     {"host", known.host.name},
                     {"pid", known.host.pid},
                     {"lanes", known.host.lanes},
                     {"devices", std::move(devices)}});
  }
  return hosts;
}

bool no_device_works(const base::json& hosts) {
  std::size_t ready = 0, quarantined = 0;
  for (const auto& host : hosts) {
    for (const auto& device : host["devices"]) {
      ready += device["state"] == "ready" ? 1U : 0U;
      quarantined += device["state"] == "quarantined" ? 1U : 0U;
    }
  }
  return quarantined > 0 && ready == 0;
}

std::string host_table(const base::json& hosts) {
  std::size_t devices = 0, quarantined = 0;
  std::string lines;
  for (const auto& host : hosts) {
    const auto pid = host["pid"].get<std::int64_t>();
    for (const auto& device : host["devices"]) {
      ++devices;
      if (device["state"] != "quarantined") continue;
      ++quarantined;
      lines += fmt::format("  QUARANTINE host {}{}, device {} ({}), since {}: {}\n",
                           host["host"].get<std::string>(),
                           pid > 0 ? fmt::format(" (process {})", pid) : "",
                           device["device"].get<std::int64_t>(), device["class"].get<std::string>(),
                           device["since"].get<std::string>(), device["reason"].get<std::string>());
    }
  }
  std::string table = fmt::format("  evaluator hosts {}, devices {}, of them in quarantine {}\n",
                                  hosts.size(), devices, quarantined);
  if (no_device_works(hosts))
    table += "  NO DEVICE IS LEFT to evaluate on: candidates wait until one takes work again\n";
  return table + lines;
}

std::string aside_table(const base::json& aside) {
  std::string lines;
  for (const auto& one : aside)
    lines += fmt::format("  SET ASIDE {}, since {}: it {}\n", one["role"].get<std::string>(),
                         one["since"].get<std::string>(), one["reason"].get<std::string>());
  return lines;
}

}  // namespace quern::actors
