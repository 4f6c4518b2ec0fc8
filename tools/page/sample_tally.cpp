#include "tools/page/sample_tally.hpp"

#include <algorithm>
#include <cmath>

namespace quern::tools {
namespace {

bool is_settled(storage::sample_state state) {
  return state == storage::sample_state::trained || state == storage::sample_state::dropped;
}

template <class Key>
void add_counts(std::map<Key, std::int64_t>& to, const std::map<Key, std::int64_t>& from) {
  for (const auto& [key, count] : from)
    to[key] += count;
}

}  // namespace

std::vector<std::pair<std::string, task_sums>> best_first(
    const std::map<std::string, task_sums>& tasks) {
  std::vector<std::pair<std::string, task_sums>> rows(tasks.begin(), tasks.end());
  const auto score = [](const auto& row) {
    return row.second.best ? row.second.best->speedup_e2 : -1;
  };
  std::sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return score(a) != score(b) ? score(a) > score(b) : a.first < b.first;
  });
  return rows;
}

double quantile_of(std::vector<std::int32_t>& values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double part = place - static_cast<double>(below);
  return static_cast<double>(values[below]) * (1 - part) +
         static_cast<double>(values[above]) * part;
}

void task_sums::add(const storage::scanned_sample& sample) {
  ++samples;
  if (!sample.verdict_id) return;
  ++judged;
  if (sample.reward) {
    ++rewarded;
    reward_sum += *sample.reward;
  }
  if (sample.verdict != "ok") return;
  ++ok;
  if (!sample.speedup_e2 || (best && best->speedup_e2 >= *sample.speedup_e2)) return;
  best = {*sample.speedup_e2, sample.id, *sample.verdict_id, sample.source_hash};
}

task_sums& task_sums::operator+=(const task_sums& other) {
  samples += other.samples;
  judged += other.judged;
  ok += other.ok;
  rewarded += other.rewarded;
  reward_sum += other.reward_sum;
  if (other.best && (!best || best->speedup_e2 < other.best->speedup_e2)) best = other.best;
  return *this;
}

void sample_sums::add(const storage::scanned_sample& sample) {
  tasks[sample.task].add(sample);
  ++states[std::string(storage::to_string(sample.state))];
  if (sample.verdict_id) ++verdicts[sample.verdict.empty() ? "unknown" : sample.verdict];
  if (!sample.drop_reason.empty()) ++drops[sample.drop_reason];
  if (!sample.step) return;
  if (sample.v_min) ++ages[*sample.step - 1 - *sample.v_min];
  if (sample.verdict != "ok" || !sample.speedup_e2) return;
  constexpr std::int64_t most = INT32_MAX;
  speedups[*sample.step].push_back(static_cast<std::int32_t>(std::min(*sample.speedup_e2, most)));
}

sample_sums& sample_sums::operator+=(const sample_sums& other) {
  for (const auto& [task, sums] : other.tasks)
    tasks[task] += sums;
  add_counts(states, other.states);
  add_counts(verdicts, other.verdicts);
  add_counts(drops, other.drops);
  add_counts(ages, other.ages);
  for (const auto& [step, values] : other.speedups) {
    auto& mine = speedups[step];
    mine.insert(mine.end(), values.begin(), values.end());
  }
  return *this;
}

base::status sample_tally::read(storage::sample_scan& scan) {
  QUERN_TRY(const std::int64_t incarnation, scan.incarnation());
  // Built beside what is there, so that an error leaves that alone.
  const bool again = incarnation != incarnation_;
  std::int64_t next = again ? 1 : next_;
  sample_sums settled, open;
  bool all_settled = true;
  for (std::int64_t first = next;;) {
    QUERN_TRY(const auto samples, scan.from(first, stretch));
    for (const auto& sample : samples) {
      all_settled = all_settled && is_settled(sample.state);
      (all_settled ? settled : open).add(sample);
      if (all_settled) next = sample.id + 1;
    }
    if (std::ssize(samples) < stretch) break;
    first = samples.back().id + 1;
  }
  if (again) settled_ = {};
  if (again || next != next_ || open.states != open_.states || open.verdicts != open_.verdicts)
    ++changes_;
  settled_ += settled;
  incarnation_ = incarnation;
  next_ = next;
  open_ = std::move(open);
  return {};
}

sample_sums sample_tally::sums() const {
  sample_sums all = settled_;
  all += open_;
  return all;
}

}  // namespace quern::tools
