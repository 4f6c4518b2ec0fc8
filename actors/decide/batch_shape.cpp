#include "actors/decide/batch_shape.hpp"

#include <algorithm>
#include <cmath>

namespace quern::actors {
namespace {

base::ordered_json mean_of(double sum, std::size_t count) {
  if (count == 0) return nullptr;
  return sum / static_cast<double>(count);
}

}  // namespace

void batch_shape::add(group_id group, std::int64_t tokens, bool truncated, double reward) {
  ++samples_;
  tokens_ += tokens;
  longest_ = std::max(longest_, tokens);
  truncated_ += truncated ? 1 : 0;
  rewards& of_group = groups_[group];
  if (of_group.count == 0) of_group.lowest = of_group.highest = reward;
  of_group.lowest = std::min(of_group.lowest, reward);
  of_group.highest = std::max(of_group.highest, reward);
  const double before = reward - of_group.mean;
  of_group.mean += before / static_cast<double>(++of_group.count);
  of_group.squares += before * (reward - of_group.mean);
}

base::ordered_json batch_shape::to_json() const {
  double spread = 0, equal = 0;
  for (const auto& [group, of_group] : groups_) {
    // Rounding alone gives equal rewards a spread.
    if (of_group.lowest == of_group.highest) {
      ++equal;
    } else {
      spread += std::sqrt(of_group.squares / static_cast<double>(of_group.count));
    }
  }
  const auto samples = static_cast<std::size_t>(samples_);
  base::ordered_json longest = nullptr;
  if (samples_ > 0) longest = longest_;
  return {{"completions",
           {{"tokens_mean", mean_of(static_cast<double>(tokens_), samples)},
            {"tokens_max", longest},
            {"truncated", mean_of(static_cast<double>(truncated_), samples)}}},
          {"groups",
           {{"count", groups_.size()},
            {"reward_spread", mean_of(spread, groups_.size())},
            {"without_spread", mean_of(equal, groups_.size())}}}};
}

}  // namespace quern::actors
