// The decision, and its words.
#include "actors/decide/bottleneck.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quern::actors {
namespace {

long percent_of(double share) {
  return std::lround(100 * share);
}

double absent_share(const loop_time& seen, run_role role) {
  return seen.wall > 0 ? static_cast<double>(seen.of(role).absent) / static_cast<double>(seen.wall)
                       : 0;
}

/// How much of the run's time the role could have done more.
double slack_of(const loop_time& seen, run_role role) {
  return seen.of(role).idle_share() * (1 - absent_share(seen, role));
}

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string names_of(const std::vector<run_role>& roles) {
  std::vector<std::string> names;
  for (const run_role role : roles)
    names.emplace_back(text_of(role));
  return listed(names);
}

/// "the learner waits 61 % of the time for finished groups".
std::string waiting(const loop_time& seen, run_role role) {
  const std::string_view what = text_of(seen.of(role).waits_for());
  return fmt::format("{} {} {} % of the time{}{}", text_of(role),
                     role == run_role::evaluator ? "wait" : "waits",
                     percent_of(slack_of(seen, role)), what.empty() ? "" : " for ", what);
}

std::string waiting(const loop_time& seen, const std::vector<run_role>& roles) {
  std::vector<std::string> parts;
  for (const run_role role : roles)
    parts.push_back(waiting(seen, role));
  return listed(parts);
}

/// "busy 97 %", and what else its time went to.
std::string at_work(const loop_time& seen, run_role role, const bottleneck_limits& limits) {
  const role_time& time = seen.of(role);
  const double absent = absent_share(seen, role);
  if (time.present() == 0) return "not there";
  std::string text = fmt::format("busy {} %", percent_of(time.busy_share()));
  if (time.device_share() >= limits.device)
    text += fmt::format(", {} % waiting for its turn on a device", percent_of(time.device_share()));
  if (absent >= limits.hardly)
    text += fmt::format(", not there {} % of the time", percent_of(absent));
  return text;
}

std::string device_text(const loop_time& seen, const std::vector<run_role>& roles) {
  std::vector<std::string> parts;
  for (const run_role role : roles)
    parts.push_back(fmt::format("{} {} % of the time", text_of(role),
                                percent_of(seen.of(role).device_share())));
  return "held back by a device that roles share: waiting for a turn on it takes " + listed(parts);
}

}  // namespace

std::string_view name_of(bottleneck_kind kind) {
  constexpr std::array<std::string_view, 5> names = {"unknown", "nobody", "role", "several",
                                                     "device"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view text_of(role_wait wait) {
  switch (wait) {
    case role_wait::unknown:
      return "";
    case role_wait::window:
      return "room in the staleness window";
    case role_wait::exemplars:
      return "exemplars that are being timed";
    case role_wait::goal:
      return "the end: all samples are asked for";
    case role_wait::groups:
      return "finished groups";
    case role_wait::jobs:
      return "candidates";
    case role_wait::messages:
      return "messages";
  }
  return "";
}

std::string_view text_of(run_role role) {
  constexpr std::array<std::string_view, run_role_count> names = {"the generator", "the learner",
                                                                  "the evaluators", "control"};
  return names[static_cast<std::size_t>(role)];
}

bottleneck held_back_by_quarantine() {
  return {bottleneck_kind::role,
          {run_role::evaluator},
          "held back by the evaluators: all their devices are in quarantine"};
}

bottleneck find_bottleneck(const loop_time& seen, const bottleneck_limits& limits) {
  if (seen.wall < limits.least_seen)
    return {bottleneck_kind::unknown, {}, "too little was seen to tell who holds the run back"};
  std::vector<run_role> hardly_idle, held_back, on_device;
  for (const run_role role : all_run_roles) {
    if (!seen.has(role)) continue;
    if (role == run_role::control && seen.of(role).present() == 0) continue;
    const double slack = slack_of(seen, role);
    if (slack <= limits.hardly) hardly_idle.push_back(role);
    if (slack >= limits.waits && role != run_role::control) held_back.push_back(role);
    if (slack <= limits.hardly && seen.of(role).device_share() >= limits.device)
      on_device.push_back(role);
  }
  // One that waits for a device while nobody else is short of work but those who have it.
  if (!on_device.empty() && hardly_idle.size() > 1)
    return {bottleneck_kind::device, on_device, device_text(seen, on_device)};
  if (hardly_idle.empty() && held_back.empty())
    return {bottleneck_kind::nobody, {}, "nobody holds the run back: all are mostly at work"};
  if (hardly_idle.empty())
    return {bottleneck_kind::nobody,
            {},
            "nobody alone holds the run back, each waits for others in turn: " +
                waiting(seen, held_back)};
  if (held_back.empty())
    return {bottleneck_kind::nobody, {}, "nobody holds the run back: nobody waits for others"};
  if (hardly_idle.size() > 1)
    return {
        bottleneck_kind::several, hardly_idle,
        fmt::format("held back by {} alike; {}", names_of(hardly_idle), waiting(seen, held_back))};
  const run_role one = hardly_idle.front();
  return {bottleneck_kind::role, hardly_idle,
          fmt::format("held back by {}: {}; {}", text_of(one), at_work(seen, one, limits),
                      waiting(seen, held_back))};
}

}  // namespace quern::actors
