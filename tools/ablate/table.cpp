#include "tools/ablate/table.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/random.hpp"

namespace quern::tools {
namespace {

constexpr int bootstrap_draws = 2000;

/// Answers, or pairs of them, by task and seed.
template <class Value>
class bootstrap_cells {
 public:
  std::vector<Value>& at(const std::string& task, std::int64_t seed) {
    return cells_[{task, seed}];
  }

  [[nodiscard]] std::vector<Value> all() const {
    std::vector<Value> values;
    for (const auto& [key, cell] : cells_)
      values.insert(values.end(), cell.begin(), cell.end());
    return values;
  }

  /// Calls `look` with the values of each draw: as many tasks and seeds as there are, drawn with
  /// replacement, each pair of them with all that it has.
  void draw(std::uint64_t seed, const std::function<void(const std::vector<Value>&)>& look) const {
    std::set<std::string> task_set;
    std::set<std::int64_t> seed_set;
    for (const auto& [key, cell] : cells_) {
      task_set.insert(key.first);
      seed_set.insert(key.second);
    }
    const std::vector<std::string> tasks(task_set.begin(), task_set.end());
    const std::vector<std::int64_t> seeds(seed_set.begin(), seed_set.end());
    if (tasks.empty()) return;
    base::random_stream random(seed, "ablation bootstrap");
    std::vector<Value> values;
    for (int count = 0; count < bootstrap_draws; ++count) {
      values.clear();
      std::vector<std::int64_t> drawn_seeds;
      for (std::size_t k = 0; k < seeds.size(); ++k)
        drawn_seeds.push_back(seeds[random.below(seeds.size())]);
      for (std::size_t k = 0; k < tasks.size(); ++k) {
        const std::string& task = tasks[random.below(tasks.size())];
        for (const std::int64_t drawn : drawn_seeds) {
          const auto cell = cells_.find({task, drawn});
          if (cell != cells_.end())
            values.insert(values.end(), cell->second.begin(), cell->second.end());
        }
      }
      look(values);
    }
  }

 private:
  std::map<std::pair<std::string, std::int64_t>, std::vector<Value>> cells_;
};

drawn_interval interval_of(std::vector<double> drawn) {
  if (drawn.empty()) return {};
  std::sort(drawn.begin(), drawn.end());
  const std::size_t tail = drawn.size() / 40;
  return {drawn[tail], drawn[drawn.size() - 1 - tail]};
}

/// What figures need of a judged answer; small, since a bootstrap copies it a million times.
struct judged_answer {
  double reward = 0, speedup = 0;
};

speed_statistics speed_of(const std::vector<judged_answer>& judged) {
  std::vector<double> speedups;
  for (const judged_answer& one : judged)
    if (one.speedup > 0) speedups.push_back(one.speedup);
  return statistics_of(speedups, static_cast<std::int64_t>(judged.size()));
}

double mean_reward_of(const std::vector<judged_answer>& judged) {
  double sum = 0;
  for (const judged_answer& one : judged)
    sum += one.reward;
  return judged.empty() ? 0 : sum / static_cast<double>(judged.size());
}

struct answer_pair {
  judged_answer first, second;
};

/// Means over pairs.
struct pair_means {
  double reward_first = 0, reward_second = 0, success = 0;
  std::int64_t both_right = 0;
  double log_speed_ratio = 0;  ///< of those that are right on both sides
};

pair_means means_of(const std::vector<answer_pair>& pairs) {
  pair_means means;
  if (pairs.empty()) return means;
  for (const answer_pair& one : pairs) {
    means.reward_first += one.first.reward;
    means.reward_second += one.second.reward;
    means.success += (one.second.speedup > 0 ? 1 : 0) - (one.first.speedup > 0 ? 1 : 0);
    if (one.first.speedup > 0 && one.second.speedup > 0) {
      ++means.both_right;
      means.log_speed_ratio += std::log(one.second.speedup / one.first.speedup);
    }
  }
  if (means.both_right > 0) means.log_speed_ratio /= static_cast<double>(means.both_right);
  const auto count = static_cast<double>(pairs.size());
  means.reward_first /= count;
  means.reward_second /= count;
  means.success /= count;
  return means;
}

reward_parts parts_of(const std::vector<answer_pair>& pairs, judged_answer answer_pair::*side) {
  reward_parts parts;
  // A reward is 0 unless the verdict is ok; a right answer may be too slow for a speed-up.
  for (const answer_pair& one : pairs)
    if ((one.*side).speedup > 0 || (one.*side).reward > 0) {
      parts.right += 1;
      parts.right_reward += (one.*side).reward;
    }
  if (parts.right == 0) return {};
  parts.right_reward /= parts.right;
  parts.right /= static_cast<double>(pairs.size());
  return parts;
}

bootstrap_cells<answer_pair> pairs_of(const ablation_arm& first, const ablation_arm& second) {
  using place = std::pair<std::string, std::int64_t>;
  bootstrap_cells<answer_pair> cells;
  for (const arm_result& of_first : first.seeds) {
    std::map<place, const held_out_answer*> by_place;
    for (const held_out_answer& one : of_first.answers)
      if (one.judged) by_place[{one.task, one.ordinal}] = &one;
    for (const arm_result& of_second : second.seeds) {
      if (of_second.seed != of_first.seed) continue;
      for (const held_out_answer& one : of_second.answers) {
        const auto beside = by_place.find({one.task, one.ordinal});
        if (one.judged && beside != by_place.end())
          cells.at(one.task, of_first.seed)
              .push_back(
                  {{beside->second->reward, beside->second->speedup}, {one.reward, one.speedup}});
      }
    }
  }
  return cells;
}

const ablation_arm* arm_called(const std::vector<ablation_arm>& arms, std::string_view name) {
  const auto found = std::ranges::find(arms, name, &ablation_arm::name);
  return found == arms.end() ? nullptr : &*found;
}

/// The arm with the answers of the weights that its runs began with; no seeds where none has them.
ablation_arm before_learning(const ablation_arm& arm) {
  ablation_arm made{"the weights it began with", {}};
  for (const arm_result& result : arm.seeds)
    if (!result.before.empty()) {
      made.seeds.emplace_back();
      made.seeds.back().seed = result.seed;
      made.seeds.back().answers = result.before;
    }
  return made;
}

/// The arm with gains in place of answers: an answer's reward less that of the weights its run
/// began with, to the same prompt. No seeds where none has learnt.
ablation_arm gains_of(const ablation_arm& arm) {
  ablation_arm made{arm.name, {}};
  for (const arm_result& result : arm.seeds) {
    if (result.before.empty()) continue;
    std::map<std::pair<std::string, std::int64_t>, double> before;
    for (const held_out_answer& one : result.before)
      if (one.judged) before[{one.task, one.ordinal}] = one.reward;
    made.seeds.emplace_back();
    made.seeds.back().seed = result.seed;
    for (held_out_answer one : result.answers) {
      const auto first = before.find({one.task, one.ordinal});
      if (!one.judged || first == before.end()) continue;
      one.reward -= first->second;
      made.seeds.back().answers.push_back(std::move(one));
    }
  }
  return made;
}

}  // namespace

arm_row row_of(const ablation_arm& arm, std::uint64_t seed) {
  arm_row row;
  row.name = arm.name;
  bootstrap_cells<judged_answer> cells;
  for (const arm_result& result : arm.seeds) {
    for (const held_out_answer& one : result.answers) {
      if (one.judged)
        cells.at(one.task, result.seed).push_back({one.reward, one.speedup});
      else
        ++row.unjudged;
    }
    row.evaluations += result.evaluations;
    row.shared_evaluations += result.shared_evaluations;
    row.seconds += result.seconds;
    row.shared_seconds += result.shared_seconds;
    row.has_times = row.has_times && result.has_times;
  }
  const auto judged = cells.all();
  row.speed = speed_of(judged);
  row.reward = mean_reward_of(judged);
  std::vector<double> mean, geometric, success, faster, reward;
  cells.draw(seed, [&](const std::vector<judged_answer>& drawn) {
    const speed_statistics of_draw = speed_of(drawn);
    // A draw without a success has no mean speed-up.
    if (of_draw.successes > 0) {
      mean.push_back(of_draw.mean);
      geometric.push_back(of_draw.geometric_mean);
    }
    success.push_back(of_draw.success_share);
    faster.push_back(of_draw.faster_share);
    reward.push_back(mean_reward_of(drawn));
  });
  row.mean = interval_of(std::move(mean));
  row.geometric_mean = interval_of(std::move(geometric));
  row.success = interval_of(std::move(success));
  row.faster = interval_of(std::move(faster));
  row.mean_reward = interval_of(std::move(reward));
  return row;
}

arm_difference difference_of(const ablation_arm& first, const ablation_arm& second,
                             std::uint64_t seed) {
  arm_difference made;
  made.first = first.name;
  made.second = second.name;
  const auto cells = pairs_of(first, second);
  const auto pairs = cells.all();
  made.pairs = static_cast<std::int64_t>(pairs.size());
  const pair_means means = means_of(pairs);
  made.reward_first = means.reward_first;
  made.reward_second = means.reward_second;
  made.reward = means.reward_second - means.reward_first;
  made.success = means.success;
  made.parts_first = parts_of(pairs, &answer_pair::first);
  made.parts_second = parts_of(pairs, &answer_pair::second);
  made.both_right = means.both_right;
  if (means.both_right > 0) made.speed_ratio = std::exp(means.log_speed_ratio);
  std::vector<double> reward, ratio, success, speed_ratio;
  bool has_ratio = means.reward_first > 0;
  cells.draw(seed, [&](const std::vector<answer_pair>& drawn) {
    const pair_means of_draw = means_of(drawn);
    reward.push_back(of_draw.reward_second - of_draw.reward_first);
    success.push_back(of_draw.success);
    if (of_draw.both_right > 0) speed_ratio.push_back(std::exp(of_draw.log_speed_ratio));
    has_ratio = has_ratio && of_draw.reward_first > 0;
    if (has_ratio) ratio.push_back(of_draw.reward_second / of_draw.reward_first);
  });
  made.reward_interval = interval_of(std::move(reward));
  made.success_interval = interval_of(std::move(success));
  made.speed_ratio_interval = interval_of(std::move(speed_ratio));
  if (has_ratio) {
    made.ratio = means.reward_second / means.reward_first;
    made.ratio_interval = interval_of(std::move(ratio));
  }
  return made;
}

ablation_table make_table(const std::vector<ablation_arm>& arms, std::uint64_t seed) {
  ablation_table table;
  const ablation_arm* plain = arm_called(arms, "+grpo");
  const auto compare = [&](const ablation_arm& first, const ablation_arm& second) {
    table.differences.push_back(difference_of(first, second, seed));
    const auto gains = difference_of(gains_of(first), gains_of(second), seed);
    if (gains.pairs > 0) table.between_gains.push_back(gains);
    ablation_arm began_first = before_learning(first), began_second = before_learning(second);
    began_first.name = first.name;
    began_second.name = second.name;
    const auto before = difference_of(began_first, began_second, seed);
    if (before.pairs > 0) table.before.push_back(before);
  };
  for (std::size_t k = 0; k < arms.size(); ++k) {
    table.rows.push_back(row_of(arms[k], seed));
    if (k > 0) compare(arms[k - 1], arms[k]);
    const bool contrastive = arms[k].name.starts_with("+contrastive:");
    if (contrastive && plain != nullptr && (k == 0 || &arms[k - 1] != plain))
      compare(*plain, arms[k]);
    const ablation_arm before = before_learning(arms[k]);
    if (!before.seeds.empty()) table.gains.push_back(difference_of(before, arms[k], seed));
  }
  return table;
}

}  // namespace quern::tools
