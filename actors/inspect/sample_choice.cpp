#include "actors/inspect/sample_choice.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/inspect/sample_words.hpp"
#include "base/text.hpp"

namespace quern::actors {
namespace {

using storage::listed_sample;

constexpr std::size_t most_tasks_named = 12;

/// Ids of the tasks that `task` names; more than one where a name has several.
base::expected<std::vector<std::string>> find_task_ids(const storage::sample_reader& reader,
                                                       const std::string& task) {
  QUERN_TRY(const std::vector<std::string> known, reader.tasks());
  std::vector<std::string> found;
  for (const std::string& id : known)
    if (id == task || task_name(id) == task) found.push_back(id);
  if (!found.empty()) return found;
  std::vector<std::string_view> names;
  for (const std::string& id : known)
    if (names.empty() || names.back() != task_name(id)) names.push_back(task_name(id));
  const std::string guess = base::did_you_mean(task, names);
  const std::size_t rest = names.size() - std::min(names.size(), most_tasks_named);
  names.resize(names.size() - rest);
  return base::fail(base::errc::not_found, "no sample is of task '{}'{}: this run has issued {}{}",
                    task, guess, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                    rest == 0 ? "" : fmt::format(" and {} more", rest));
}

bool has_verdict(const listed_sample& sample, env::verdict_kind kind) {
  if (!sample.verdict) return false;
  // Most are told apart without reading all of a verdict, which takes ten times as long.
  const std::string quoted = fmt::format("\"{}\"", env::name_of(kind));
  if (sample.verdict->row.json.find(quoted) == std::string::npos) return false;
  const auto value = read_verdict(*sample.verdict);
  return value && value->kind == kind;
}

/// Keeps what fits, at most as many as are wanted.
class picker {
 public:
  picker(const sample_choice& choice, std::vector<std::string> tasks)
      : choice_(choice), tasks_(std::move(tasks)) {}

  void take(listed_sample sample) {
    if (!fits(sample)) return;
    ++fitting_;
    kept_.push_back(std::move(sample));
    if (is_ranked() && kept_.size() >= 2 * wanted()) cut();
  }
  /// No later sample can change the list.
  [[nodiscard]] bool is_full() const { return !is_ranked() && kept_.size() > wanted(); }

  chosen_samples end(bool read_all) {
    if (is_ranked()) cut();
    if (kept_.size() > wanted()) kept_.resize(wanted());
    chosen_samples chosen;
    chosen.samples = std::move(kept_);
    chosen.left_out = fitting_ - static_cast<std::int64_t>(chosen.samples.size());
    chosen.ranked = is_ranked();
    chosen.more = !read_all;
    return chosen;
  }

 private:
  [[nodiscard]] bool is_ranked() const { return choice_.by != sample_choice::order::as_issued; }
  [[nodiscard]] std::size_t wanted() const { return static_cast<std::size_t>(choice_.limit); }

  [[nodiscard]] bool fits(const listed_sample& sample) const {
    if (!tasks_.empty() && std::find(tasks_.begin(), tasks_.end(), sample.task) == tasks_.end())
      return false;
    if (is_ranked() && !sample.row.reward) return false;
    return !choice_.verdict || has_verdict(sample, *choice_.verdict);
  }

  /// Leaves the first ones alone.
  void cut() {
    const bool best = choice_.by == sample_choice::order::best;
    const auto speedup = [](const listed_sample& sample) {
      return sample.verdict ? sample.verdict->row.speedup_e2.value_or(-1) : -1;
    };
    std::sort(kept_.begin(), kept_.end(), [&](const listed_sample& a, const listed_sample& b) {
      if (*a.row.reward != *b.row.reward)
        return best ? *a.row.reward > *b.row.reward : *a.row.reward < *b.row.reward;
      if (speedup(a) != speedup(b)) return best ? speedup(a) > speedup(b) : speedup(a) < speedup(b);
      return a.row.id < b.row.id;
    });
    if (kept_.size() > wanted()) kept_.resize(wanted());
  }

  const sample_choice& choice_;
  std::vector<std::string> tasks_;
  std::vector<listed_sample> kept_;
  std::int64_t fitting_ = 0;
};

base::expected<chosen_samples> choose_of_step(const storage::sample_reader& reader,
                                              std::int64_t step, picker picks) {
  std::int64_t last = 0;
  while (true) {
    QUERN_TRY(auto page, reader.of_step(step, last));
    if (page.empty()) break;
    last = page.back().row.id;
    for (listed_sample& one : page)
      picks.take(std::move(one));
  }
  chosen_samples chosen = picks.end(true);
  chosen.step = step;
  return chosen;
}

base::expected<chosen_samples> choose_of_run(const storage::sample_reader& reader, picker picks) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  bool read_all = false;
  while (!picks.is_full()) {
    QUERN_TRY(auto page, reader.below(first));
    read_all = page.empty();
    if (read_all) break;
    first = page.back().row.id;
    for (listed_sample& one : page)
      picks.take(std::move(one));
  }
  chosen_samples chosen = picks.end(read_all);
  if (!chosen.ranked) std::reverse(chosen.samples.begin(), chosen.samples.end());
  return chosen;
}

base::status need_step(const storage::sample_reader& reader, std::int64_t step) {
  QUERN_TRY(const std::int64_t last, reader.last_step());
  if (step >= 1 && step <= last) return {};
  if (last == 0)
    return base::fail(base::errc::not_found,
                      "no step {}: no gradient step of this run has used samples yet; without "
                      "--step its newest samples are shown",
                      step);
  return base::fail(base::errc::not_found, "no step {}: this run has made the steps 1 .. {}", step,
                    last);
}

}  // namespace

base::expected<chosen_samples> choose_samples(const storage::sample_reader& reader,
                                              const sample_choice& choice) {
  std::vector<std::string> tasks;
  if (!choice.task.empty()) {
    QUERN_TRY(tasks, find_task_ids(reader, choice.task));
  }
  if (choice.step) QUERN_CHECK(need_step(reader, *choice.step));
  const bool ranked = choice.by != sample_choice::order::as_issued;
  std::int64_t step = choice.step.value_or(0);
  if (!choice.step && !ranked && choice.task.empty() && !choice.verdict) {
    QUERN_TRY(step, reader.last_step());
  }
  picker picks(choice, std::move(tasks));
  return step > 0 ? choose_of_step(reader, step, std::move(picks))
                  : choose_of_run(reader, std::move(picks));
}

}  // namespace quern::actors
