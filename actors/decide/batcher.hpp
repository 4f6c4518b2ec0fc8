// Which complete groups the next optimiser step uses: the oldest first, and none that is too old.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "actors/decide/staleness_window.hpp"

namespace quern::actors {

/// A sample of a batch.
struct batch_member {
  sample_id sample = 0;
  std::int64_t masked_tokens = 0;  ///< leading tokens that are too old to be trained on
};

struct batch_group {
  group_id group = 0;
  std::int64_t sequence = 0;
  std::int64_t age = 0;
  std::vector<batch_member> members;
};

/// The input of one optimiser step.
struct batch {
  std::int64_t step = 0;  ///< = `from`: the step takes version from to from + 1
  weights_version from = 0;
  std::vector<batch_group> groups;
};

/// A complete group that waits for its step, with what the masks need.
struct ready_sample {
  sample_id sample = 0;
  std::int64_t tokens = 0;
  std::vector<segment> segments;
};
struct ready_group {
  group_id group = 0;
  std::int64_t sequence = 0;
  std::vector<ready_sample> samples;
};

struct batch_plan {
  std::optional<batch> next;            ///< empty: not enough groups, or held back
  std::vector<group_id> too_old;        ///< to be dropped as `stale`, slots and all
  std::vector<sample_id> fully_masked;  ///< samples of `next`'s groups to be dropped as `stale`
  std::vector<group_id> held_back_by;   ///< policy wait: groups that the step waits for
};

/// Not thread-safe.
class batcher {
 public:
  explicit batcher(std::int64_t groups_per_step) : groups_per_step_(groups_per_step) {}

  /// Conflict if the group is already waiting.
  base::status add(ready_group group);

  /// The batch of the step that starts from `now`, its groups taken out of the waiting ones; ages
  /// come from `window`, which still holds their slots. Groups that became too old are taken out
  /// whether there is a batch or not. Errors are the window's (internal: negative age).
  base::expected<batch_plan> plan(weights_version now, const staleness_window& window);

  [[nodiscard]] std::size_t waiting() const { return ready_.size(); }

 private:
  std::int64_t groups_per_step_;
  std::map<std::int64_t, ready_group> ready_;  // by sequence
};

}  // namespace quern::actors
