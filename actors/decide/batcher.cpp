// Formation of batches.
#include "actors/decide/batcher.hpp"

#include <algorithm>

#include "actors/decide/group_book.hpp"
#include "actors/decide/mutation.hpp"

namespace quern::actors {

using base::errc;
using base::fail;

namespace {

/// What is left of a group under `mask_tokens`: members with at least one token young enough.
struct masked_group {
  std::vector<batch_member> members;
  std::vector<sample_id> nothing_left;
};

base::expected<masked_group> mask(const ready_group& group, weights_version now,
                                  std::int64_t max_age) {
  masked_group result;
  for (const auto& sample : group.samples) {
    QUERN_TRY(const auto masked, stale_prefix(sample.segments, sample.tokens, now, max_age));
    if (masked >= sample.tokens) {
      result.nothing_left.push_back(sample.sample);
    } else {
      result.members.push_back({sample.sample, masked});
    }
  }
  return result;
}

}  // namespace

base::status batcher::add(ready_group group) {
  const auto sequence = group.sequence;
  if (!ready_.emplace(sequence, std::move(group)).second) {
    return fail(errc::conflict, "group number {} already waits for its step", sequence);
  }
  return {};
}

std::vector<group_id> batcher::waiting_groups() const {
  std::vector<group_id> groups;
  for (const auto& [sequence, group] : ready_)
    groups.push_back(group.group);
  return groups;
}

base::status batcher::sort_out(weights_version now, const staleness_window& window,
                               batch_plan& plan) {
  const auto& limits = window.limits();
  for (auto at = ready_.begin(); at != ready_.end();) {
    QUERN_TRY(const auto age, window.age(at->second.group, now));
    bool keep = window.within_bound(age) || mutated(mutation::age_not_checked);
    if (!keep && limits.policy == staleness_policy::mask_tokens) {
      QUERN_TRY(const auto left, mask(at->second, now, limits.max_age));
      keep = left.members.size() >= least_group;
    }
    if (keep) {
      ++at;
    } else {
      plan.too_old.push_back(at->second.group);
      at = ready_.erase(at);
    }
  }
  return {};
}

base::expected<batch> batcher::take(const std::vector<std::int64_t>& numbers, weights_version now,
                                    const staleness_window& window, batch_plan& plan) {
  const auto& limits = window.limits();
  batch result{now, {}};
  for (const auto number : numbers) {
    const auto at = ready_.find(number);
    auto& group = at->second;
    QUERN_TRY(const auto age, window.age(group.group, now));
    batch_group chosen{group.group, number, age, {}};
    if (limits.policy == staleness_policy::mask_tokens && !window.within_bound(age)) {
      QUERN_TRY(auto left, mask(group, now, limits.max_age));
      chosen.members = std::move(left.members);
      plan.fully_masked.insert(plan.fully_masked.end(), left.nothing_left.begin(),
                               left.nothing_left.end());
    } else {
      for (const auto& sample : group.samples)
        chosen.members.push_back({sample.sample, 0});
    }
    result.groups.push_back(std::move(chosen));
    ready_.erase(at);
  }
  return result;
}

base::expected<batch_plan> batcher::plan(weights_version now, const staleness_window& window) {
  batch_plan result;
  QUERN_CHECK(sort_out(now, window, result));
  if (static_cast<std::int64_t>(ready_.size()) < groups_per_step_) return result;

  std::vector<std::pair<std::int64_t, std::int64_t>> oldest;  // (-age, number)
  for (const auto& [number, group] : ready_) {
    QUERN_TRY(const auto age, window.age(group.group, now));
    oldest.emplace_back(-age, number);
  }
  const auto count = static_cast<std::size_t>(groups_per_step_);
  std::partial_sort(oldest.begin(), oldest.begin() + groups_per_step_, oldest.end());
  std::vector<std::int64_t> numbers;
  std::vector<group_id> groups;
  for (std::size_t i = 0; i < count; ++i) {
    numbers.push_back(oldest[i].second);
    groups.push_back(ready_.at(oldest[i].second).group);
  }
  if (!window.condemned_by(groups, now).empty()) {
    const auto order = window.oldest_first();
    const auto complete = waiting_groups();
    for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
      const bool dropped_above =
          std::find(result.too_old.begin(), result.too_old.end(), order[i]) != result.too_old.end();
      if (!dropped_above &&
          std::find(complete.begin(), complete.end(), order[i]) == complete.end()) {
        result.waits_for.push_back(order[i]);
      }
    }
    if (!result.waits_for.empty()) return result;
  }
  QUERN_TRY(result.next, take(numbers, now, window, result));
  return result;
}

base::expected<batch_plan> batcher::plan_until(std::int64_t horizon, weights_version now,
                                               const staleness_window& window) {
  batch_plan result;
  QUERN_CHECK(sort_out(now, window, result));
  std::vector<std::int64_t> numbers;
  for (const auto& [number, group] : ready_) {
    if (number < horizon) numbers.push_back(number);
  }
  QUERN_TRY(result.next, take(numbers, now, window, result));
  return result;
}

}  // namespace quern::actors
