// Which complete groups the next optimiser step uses: the oldest first, and none that is too old.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "actors/decide/staleness_window.hpp"

namespace quern::actors {

/// A complete group that waits for its step, with what the masks need.
struct ready_sample {
  sample_id sample = 0;
  std::int64_t tokens = 0;  ///< the policy's
  std::vector<segment> segments;
};
struct ready_group {
  group_id group = 0;
  std::int64_t sequence = 0;
  std::vector<ready_sample> samples;
};

struct batch_member {
  sample_id sample = 0;
  std::int64_t masked_tokens = 0;  ///< the policy's first ones, too old to be trained on
};
struct batch_group {
  group_id group = 0;
  std::int64_t sequence = 0;
  std::int64_t age = 0;
  std::vector<batch_member> members;
};

/// The input of one optimiser step, which takes version `from` to from + 1. In deterministic mode
/// it may be empty: the step then changes nothing but the version.
struct batch {
  weights_version from = 0;
  std::vector<batch_group> groups;
  std::int64_t number = 0;  ///< among the batches of the incarnation, from 1
};

struct batch_plan {
  std::optional<batch> next;            ///< empty: not enough groups, or the step must wait
  std::vector<group_id> too_old;        ///< taken out: to be dropped as `stale`, slots and all
  std::vector<sample_id> fully_masked;  ///< of groups in `next`: to be dropped as `stale`
  std::vector<group_id> waits_for;      ///< policy wait: groups under way that must come first
};

/// Not thread-safe.
class batcher {
 public:
  explicit batcher(std::int64_t groups_per_step) : groups_per_step_(groups_per_step) {}

  /// Conflict if a group with that number is already waiting.
  base::status add(ready_group group);

  /// The batch of the step that starts from `now`: P groups, the oldest first, taken out of the
  /// waiting ones; ages come from `window`, which still holds their slots. Groups that became too
  /// old are taken out whether there is a batch or not. Policy `wait`: no batch as long as it would
  /// condemn a group under way, unless everything older is complete, since then waiting would not
  /// help. Errors are the window's (internal: negative age).
  base::expected<batch_plan> plan(weights_version now, const staleness_window& window);

  /// Deterministic mode: all waiting groups with numbers below `horizon`, however few.
  base::expected<batch_plan> plan_until(std::int64_t horizon, weights_version now,
                                        const staleness_window& window);

  [[nodiscard]] std::size_t waiting() const { return ready_.size(); }
  [[nodiscard]] std::vector<group_id> waiting_groups() const;

 private:
  using queue = std::map<std::int64_t, ready_group>;  // by number

  base::status sort_out(weights_version now, const staleness_window& window, batch_plan& plan);
  base::expected<batch> take(const std::vector<std::int64_t>& numbers, weights_version now,
                             const staleness_window& window, batch_plan& plan);

  std::int64_t groups_per_step_;
  queue ready_;
};

}  // namespace quern::actors
