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

/// What happens to a group whose oldest token is older than the bound.
enum class staleness_policy {
  drop,        ///< the group is dropped with reason `stale`
  wait,        ///< no step is taken that would make a group under way too old; nothing is dropped
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
/// group was dropped: never earlier. There are (S + 1) P slots. If steps used groups in issue
/// order, a group issued at version f with j slots charged before it would be used at version
/// now + floor(j / P); issuing is allowed only while that age is at most S. Stragglers can break
/// the order, so the bound is checked again where it counts, when a batch is formed. Not
/// thread-safe.
class staleness_window {
 public:
  explicit staleness_window(staleness_limits limits) : limits_(limits) {}

  /// May a group be issued now? `floor`: the oldest version that a generator which can receive it
  /// still has installed; `now`: the learner's version.
  [[nodiscard]] bool can_issue(weights_version floor, weights_version now) const;

  /// Charges a slot. Errors: conflict (already charged), exhausted (no free slot).
  base::status charge(group_id group, weights_version floor);

  /// The oldest version in the group's tokens is known, now or corrected downwards by another
  /// sample. Errors: not_found; internal if `oldest` is newer than `now` (a negative age: fatal,
  /// the run must stop because some counter is wrong).
  base::status stamp(group_id group, weights_version oldest, weights_version now);

  /// Age at a step that starts from `now`. Errors: not_found; internal when it is negative.
  [[nodiscard]] base::expected<std::int64_t> age(group_id group, weights_version now) const;

  [[nodiscard]] bool within_bound(std::int64_t age) const { return age <= limits_.max_age; }

  /// Policy `wait`: the charged groups outside `batch` that would be too old for the step after one
  /// that starts from `now`. Empty under the other policies.
  [[nodiscard]] std::vector<group_id> held_back_by(std::span<const group_id> batch,
                                                   weights_version now) const;

  /// Frees the slot: an optimiser step used the group, or all of it was dropped. not_found if it
  /// holds none, which includes a second release.
  base::status release(group_id group);

  [[nodiscard]] std::int64_t slots() const {
    return (limits_.max_age + 1) * limits_.groups_per_step;
  }
  [[nodiscard]] std::int64_t charged() const { return static_cast<std::int64_t>(oldest_.size()); }
  [[nodiscard]] const staleness_limits& limits() const { return limits_; }

 private:
  staleness_limits limits_;
  std::unordered_map<group_id, weights_version> oldest_;
};

/// Policy `mask_tokens`: the number of leading tokens of a sample that are too old for a step that
/// starts from `now`. Versions do not fall along a sample (errors: internal if they do or if one
/// is newer than `now`), so what is too old is a prefix; all of `tokens` means nothing is left.
base::expected<std::int64_t> stale_prefix(std::span<const segment> segments, std::int64_t tokens,
                                          weights_version now, std::int64_t max_age);

}  // namespace quern::actors
