// What a run_view has read, as the JSON that its page draws.
#include <algorithm>

#include "actors/config/config_file.hpp"
#include "tools/page/run_view.hpp"

namespace quern::tools {
namespace {

base::ordered_json row_of(const task_sums& sums) {
  return {
      {"samples", sums.samples},
      {"judged", sums.judged},
      {"ok", sums.ok},
      {"reward", sums.rewarded == 0
                     ? base::ordered_json()
                     : number_or_null(sums.reward_sum / static_cast<double>(sums.rewarded))},
      {"best_e2", sums.best ? base::ordered_json(sums.best->speedup_e2) : base::ordered_json()},
      {"best_sample", sums.best ? base::ordered_json(sums.best->sample) : base::ordered_json()}};
}

}  // namespace

base::ordered_json run_view::progress_json() const {
  const bool search = config_ && actors::is_search(*config_);
  const std::int64_t wanted = !config_ ? 0
                              : search ? config_->run.budget_evaluations
                                       : config_->learner.steps;
  return {{"done", curves_.last()},
          {"wanted", wanted},
          {"unit", search ? "evaluation" : "step"},
          {"checkpoint", checkpoint_}};
}

base::ordered_json run_view::tasks_json(const sample_sums& sums) const {
  base::ordered_json rows = base::ordered_json::array();
  for (const auto& [task, of_task] : best_first(sums.tasks)) {
    if (rows.size() == most_task_rows) break;
    const task_words words = words_of(task);
    base::ordered_json row = {{"id", task},
                              {"chain", words.chain},
                              {"family", words.family},
                              {"held_out", words.held_out}};
    row.update(row_of(of_task));
    rows.push_back(std::move(row));
  }
  return rows;
}

base::ordered_json run_view::families_json(const sample_sums& sums) const {
  std::map<std::string, task_sums> families;
  std::map<std::string, std::int64_t> tasks;
  for (const auto& [task, of_task] : sums.tasks) {
    const std::string family = words_of(task).family;
    const std::string named = family.empty() ? "unknown" : family;
    families[named] += of_task;
    ++tasks[named];
  }
  base::ordered_json rows = base::ordered_json::array();
  for (const auto& [family, of_family] : best_first(families)) {
    base::ordered_json row = {{"family", family}, {"tasks", tasks[family]}};
    row.update(row_of(of_family));
    rows.push_back(std::move(row));
  }
  return rows;
}

base::ordered_json run_view::kernels_json() const {
  base::ordered_json rows = base::ordered_json::array();
  for (const shown_kernel& kernel : kernels_) {
    const task_words words = words_of(kernel.task);
    const auto verdict = base::parse_json(kernel.verdict);
    rows.push_back({{"task", kernel.task},
                    {"chain", words.chain},
                    {"family", words.family},
                    {"speedup_e2", kernel.best.speedup_e2},
                    {"sample", kernel.best.sample},
                    {"source", kernel.source},
                    {"problem", kernel.problem},
                    {"verdict", verdict ? base::ordered_json(*verdict) : base::ordered_json()}});
  }
  return rows;
}

base::ordered_json run_view::settings_json() const {
  base::ordered_json rows = base::ordered_json::array();
  if (!config_) return rows;
  for (const auto& change : actors::differences(actors::run_config{}, *config_)) {
    std::string_view why;
    for (const actors::config_key& key : actors::config_keys())
      if (key.path == change.path) why = key.why;
    rows.push_back(
        {{"key", change.path}, {"default", change.before}, {"value", change.after}, {"why", why}});
  }
  return rows;
}

base::ordered_json run_view::speedups(const sample_sums& sums) const {
  base::ordered_json x = base::ordered_json::array(), low = x, median = x, high = x, best = x;
  if (!sums.speedups.empty()) {
    const point_grid grid(sums.speedups.begin()->first, sums.speedups.rbegin()->first);
    std::vector<std::vector<std::int32_t>> points(grid.points());
    for (const auto& [step, values] : sums.speedups) {
      auto& point = points[grid.point_of(step)];
      point.insert(point.end(), values.begin(), values.end());
    }
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].empty()) continue;
      x.push_back(grid.step_of(i));
      low.push_back(number_or_null(quantile_of(points[i], 0.1) / 100));
      median.push_back(number_or_null(quantile_of(points[i], 0.5) / 100));
      high.push_back(number_or_null(quantile_of(points[i], 0.9) / 100));
      best.push_back(number_or_null(quantile_of(points[i], 1) / 100));
    }
  }
  return {{"x", x}, {"low", low}, {"median", median}, {"high", high}, {"best", best}};
}

base::ordered_json run_view::data(bool live) const {
  const sample_sums sums = tally_.sums();
  std::int64_t issued = 0;
  for (const auto& [state, count] : sums.states)
    issued += count;
  base::ordered_json ages = base::ordered_json::object();
  for (const auto& [age, count] : sums.ages)
    ages[std::to_string(age)] = count;
  return {{"quern_page", 1},
          {"kind", "run"},
          {"live", live},
          {"revision", revision_},
          {"run",
           {{"name", name()},
            {"folder", paths_.root.string()},
            {"stage", base::get<std::string>(meta_, "stage").value_or("")},
            {"lane", config_ ? config_->env.lane : ""},
            {"state", to_string(state_)},
            {"created_ns", base::get<std::int64_t>(meta_, "created_ns").value_or(0)},
            {"build", base::get<std::string>(meta_, "build").value_or("")},
            {"machine", base::get<std::string>(meta_, "machine").value_or("")},
            {"seed",
             meta_.contains("seed") ? base::ordered_json(meta_["seed"]) : base::ordered_json()}}},
          {"progress", progress_json()},
          {"held_back", curves_.held_back()},
          {"warnings", curves_.warnings()},
          {"problems", problems()},
          {"samples", {{"issued", issued}, {"states", sums.states}}},
          {"verdicts", sums.verdicts},
          {"drops", sums.drops},
          {"ages", std::move(ages)},
          {"curves", curves_.to_json()},
          {"speedups", speedups(sums)},
          {"tasks_in_all", sums.tasks.size()},
          {"tasks", tasks_json(sums)},
          {"families", families_json(sums)},
          {"kernels", kernels_json()},
          {"settings", settings_json()},
          {"report", report_}};
}

}  // namespace quern::tools
