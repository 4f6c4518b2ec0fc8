// How long the completions of a step are, and how far rewards differ inside its groups.
#pragma once

#include <cstdint>
#include <map>

#include "actors/decide/ids.hpp"
#include "base/json.hpp"

namespace quern::actors {

/// Sums over the samples of one batch. Not thread-safe.
class batch_shape {
 public:
  /// The next sample. `tokens`: that the policy sampled; `truncated`: it was cut before its end
  /// token; `reward`: as judged, not as smoothed.
  void add(group_id group, std::int64_t tokens, bool truncated, double reward);

  /// Keys of metrics.jsonl. "completions": `tokens_mean`, `tokens_max`, `truncated` (a share).
  /// "groups": `count`, `reward_spread` (the standard deviation of the rewards of a group, mean
  /// over groups), `without_spread` (the share of groups whose rewards are all equal: they have no
  /// advantage and no gradient). Means and shares of nothing are null.
  [[nodiscard]] base::ordered_json to_json() const;

 private:
  /// Of the rewards of one group (Welford's sums).
  struct rewards {
    std::int64_t count = 0;
    double mean = 0, squares = 0;
    double lowest = 0, highest = 0;
  };
  std::int64_t samples_ = 0, truncated_ = 0, tokens_ = 0, longest_ = 0;
  std::map<group_id, rewards> groups_;
};

}  // namespace quern::actors
