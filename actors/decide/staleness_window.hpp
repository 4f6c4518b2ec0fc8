// Staleness is a bound, not a hope: how many groups may be under way, and how old a group may be
// when an optimiser step uses it.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "actors/decide/ids.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// What happens when a group's oldest token is older than the bound.
enum class staleness_policy {
  drop,        ///< the group is dropped with reason `stale`
  wait,        ///< no step is taken that would make a group under way too old
  mask_tokens  ///< the tokens that are too old are masked; a sample without any left is dropped
};
std::string_view to_string(staleness_policy policy);
base::expected<staleness_policy> parse_staleness_policy(std::string_view text);

struct staleness_limits {
  std::int64_t max_age = 1;          ///< S: optimiser steps between sampling and use; 0 = on-policy
  std::int64_t groups_per_step = 4;  ///< P
  staleness_policy policy = staleness_policy::drop;
};

/// Age of a token = version that a step starts from - version that sampled the token. Age of a
/// group = age of the oldest token of its oldest sample.
///
/// A slot is charged when a group is issued and freed by the step that used it, or when the whole
/// group was dropped: never earlier. Steps use the oldest groups first, P at a time, so a group
/// sampled by version f behind j charged ones is used by the step from now + floor(j / P). It
/// may be issued while that makes it at most S old; with f = now these are (S + 1) P slots.
/// Stragglers and restarts can break the order, so the bound is checked again where it counts, when
/// a batch is formed. Not thread-safe.
class staleness_window {
 public:
  explicit staleness_window(staleness_limits limits) : limits_(limits) {}

  /// May a group be issued? `floor`: the oldest version that may sample it; `now`: the learner's.
  [[nodiscard]] bool can_issue(weights_version floor, weights_version now) const;

  /// Charges a slot; also beyond the limit, since a recovery may bring back more. Conflict if the
  /// group holds one.
  base::status charge(group_id group, weights_version floor);

  /// The oldest version in the tokens of all samples of the group. Errors: not_found; internal if
  /// it is newer than `now` (a negative age is fatal: some counter is wrong).
  base::status stamp(group_id group, weights_version oldest, weights_version now);

  /// Age at a step that starts from `now`. Errors: not_found; internal when it is negative.
  [[nodiscard]] base::expected<std::int64_t> age(group_id group, weights_version now) const;
  [[nodiscard]] bool within_bound(std::int64_t age) const { return age <= limits_.max_age; }

  /// Policy `wait`: the charged groups that a step from `now` with `batch` would condemn: those
  /// that, taken oldest first, P a step, would then be used too old. Empty under other policies.
  [[nodiscard]] std::vector<group_id> condemned_by(std::span<const group_id> batch,
                                                   weights_version now) const;
  /// All charged groups, oldest first.
  [[nodiscard]] std::vector<group_id> oldest_first() const;

  /// Frees the slot: an optimiser step used the group, or all of it was dropped. not_found if it
  /// holds none, which includes a second release.
  base::status release(group_id group);

  [[nodiscard]] bool holds(group_id group) const { return oldest_.contains(group); }
  [[nodiscard]] std::int64_t charged() const { return static_cast<std::int64_t>(oldest_.size()); }
  [[nodiscard]] std::int64_t slots() const {
    return (limits_.max_age + 1) * limits_.groups_per_step;
  }
  [[nodiscard]] const staleness_limits& limits() const { return limits_; }

 private:
  staleness_limits limits_;
  std::unordered_map<group_id, weights_version> oldest_;
};

/// Policy `mask_tokens`: the number of leading tokens of a sample that are too old for a step that
/// starts from `now`. Versions do not fall along a sample (errors: internal if they do or if one is
/// newer than `now`), so what is too old is a prefix; all of `tokens` means that nothing is left.
base::expected<std::int64_t> stale_prefix(std::span<const segment> segments, std::int64_t tokens,
                                          weights_version now, std::int64_t max_age);

}  // namespace quern::actors
