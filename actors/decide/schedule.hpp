// The logical schedule of deterministic mode: which weights sample a group, which step trains it
// and which archive it sees are functions of its number alone, so that pausing, killing and timing
// cannot change the result.
#pragma once

#include <map>
#include <vector>

#include "actors/decide/ids.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// P groups a step, sampled at most S steps ahead. Group k (counted from 0 in issue order)
///   is trained by step     floor(k / P)            (the step takes version s to s + 1)
///   is sampled by version  max(0, floor(k / P) - S)
///   sees the archive of    the groups before       version(k) * P.
/// Its age at training is therefore S, and less only in the first S steps. Pure; any thread.
class schedule {
 public:
  /// `groups_per_step` >= 1, `max_age` >= 0, else invalid_argument.
  static base::expected<schedule> make(std::int64_t groups_per_step, std::int64_t max_age);

  [[nodiscard]] std::int64_t step_of(std::int64_t sequence) const;
  [[nodiscard]] weights_version version_for(std::int64_t sequence) const;
  /// Groups with a lower number belong to the archive that group `sequence` reads.
  [[nodiscard]] std::int64_t archive_horizon(std::int64_t sequence) const;
  /// True when `installed` is exactly the version that samples the group.
  [[nodiscard]] bool may_sample(std::int64_t sequence, weights_version installed) const;
  /// The groups of one step: [first, first + P).
  [[nodiscard]] std::int64_t first_group(std::int64_t step) const;
  [[nodiscard]] std::int64_t groups_per_step() const { return groups_per_step_; }

 private:
  schedule(std::int64_t groups_per_step, std::int64_t max_age)
      : groups_per_step_(groups_per_step), max_age_(max_age) {}

  std::int64_t groups_per_step_;
  std::int64_t max_age_;
};

/// Puts groups that finish in any order back into issue order: groups are handed out only when all
/// with lower numbers were. Not thread-safe.
class issue_order {
 public:
  /// `next` is the first number that has not been handed out (after a resume: not zero).
  explicit issue_order(std::int64_t next = 0) : next_(next) {}

  /// A group that is finished: to be trained or, when everything of it was dropped, only passed
  /// over. A number that was already finished is a conflict.
  base::status finish(std::int64_t sequence, group_id group);

  /// The groups whose turn it is, in order.
  std::vector<group_id> take();

  [[nodiscard]] std::int64_t next() const { return next_; }
  [[nodiscard]] std::size_t waiting() const { return finished_.size(); }

 private:
  std::int64_t next_;
  std::map<std::int64_t, group_id> finished_;
};

}  // namespace quern::actors
