// Slots and ages.
#include "actors/decide/staleness_window.hpp"

#include <algorithm>

namespace quern::actors {

using base::errc;
using base::fail;

std::string_view to_string(staleness_policy policy) {
  switch (policy) {
    case staleness_policy::drop:
      return "drop";
    case staleness_policy::wait:
      return "wait";
    case staleness_policy::mask_tokens:
      return "mask_tokens";
  }
  return "drop";
}

base::expected<staleness_policy> parse_staleness_policy(std::string_view text) {
  for (const auto policy :
       {staleness_policy::drop, staleness_policy::wait, staleness_policy::mask_tokens}) {
    if (text == to_string(policy)) return policy;
  }
  return fail(errc::invalid_argument, "staleness policy '{}' is none of drop, wait, mask_tokens",
              text);
}

bool staleness_window::can_issue(weights_version floor, weights_version now) const {
  return now + charged() / limits_.groups_per_step - floor <= limits_.max_age;
}

base::status staleness_window::charge(group_id group, weights_version floor) {
  if (!oldest_.emplace(group, floor).second) {
    return fail(errc::conflict, "group {} already holds a slot", group);
  }
  return {};
}

base::status staleness_window::stamp(group_id group, weights_version oldest, weights_version now) {
  const auto found = oldest_.find(group);
  if (found == oldest_.end()) return fail(errc::not_found, "group {} holds no slot", group);
  if (oldest > now) {
    return fail(
        errc::internal,
        "group {} was sampled by version {}, but the learner has only reached {}: a negative age",
        group, oldest, now);
  }
  found->second = oldest;
  return {};
}

base::expected<std::int64_t> staleness_window::age(group_id group, weights_version now) const {
  const auto found = oldest_.find(group);
  if (found == oldest_.end()) return fail(errc::not_found, "group {} holds no slot", group);
  if (found->second > now) {
    return fail(errc::internal, "group {} is of version {}, newer than the learner's {}", group,
                found->second, now);
  }
  return now - found->second;
}

std::vector<group_id> staleness_window::oldest_first() const {
  std::vector<std::pair<weights_version, group_id>> order;
  for (const auto& [group, version] : oldest_)
    order.emplace_back(version, group);
  std::sort(order.begin(), order.end());
  std::vector<group_id> groups;
  for (const auto& entry : order)
    groups.push_back(entry.second);
  return groups;
}

std::vector<group_id> staleness_window::condemned_by(std::span<const group_id> batch,
                                                     weights_version now) const {
  std::vector<group_id> condemned;
  if (limits_.policy != staleness_policy::wait) return condemned;
  std::int64_t place = 0;
  for (const auto group : oldest_first()) {
    if (std::find(batch.begin(), batch.end(), group) != batch.end()) continue;
    const auto used_from = now + 1 + place++ / limits_.groups_per_step;
    if (used_from - oldest_.at(group) > limits_.max_age) condemned.push_back(group);
  }
  return condemned;
}

base::status staleness_window::release(group_id group) {
  if (oldest_.erase(group) == 0) return fail(errc::not_found, "group {} holds no slot", group);
  return {};
}

base::expected<std::int64_t> stale_prefix(std::span<const segment> segments, std::int64_t tokens,
                                          weights_version now, std::int64_t max_age) {
  std::int64_t masked = 0;
  weights_version last = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto version = segments[i].version;
    if (version < last || version > now) {
      return fail(
          errc::internal,
          "segment {} is of version {}, after one of {} and with the learner at {}: versions rise "
          "along a sample and never pass the learner",
          i, version, last, now);
    }
    last = version;
    if (now - version > max_age) {
      masked = i + 1 < segments.size() ? segments[i + 1].first_token : tokens;
    }
  }
  return masked;
}

}  // namespace quern::actors
