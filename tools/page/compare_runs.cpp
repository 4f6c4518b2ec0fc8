#include "tools/page/compare_runs.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "base/printable.hpp"

namespace quern::tools {
namespace {

std::string figure(double value, const char* unit = "", double factor = 1) {
  if (!std::isfinite(value)) return "";
  value *= factor;
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}{}", value, unit)
                                 : fmt::format("{:.3g}{}", value, unit);
}

/// The first or the last tenth of the steps that a run has made.
struct stretch {
  std::int64_t first = 0, last = -1;
};
stretch tenth_of(const step_curves& curves, bool at_the_end) {
  const std::int64_t last = curves.last(), length = std::max<std::int64_t>(1, (last + 9) / 10);
  if (at_the_end) return {last - length + 1, last};
  return {1, length};
}

std::string tenth(const step_curves& curves, std::string_view series, bool at_the_end,
                  const char* unit = "", double factor = 1) {
  const stretch steps = tenth_of(curves, at_the_end);
  return figure(curves.mean(series, steps.first, steps.last), unit, factor);
}

std::string median_speedup(const run_view& view, const sample_sums& sums, bool at_the_end) {
  const stretch steps = tenth_of(view.curves(), at_the_end);
  std::vector<std::int32_t> all;
  for (auto at = sums.speedups.lower_bound(steps.first);
       at != sums.speedups.end() && at->first <= steps.last; ++at)
    all.insert(all.end(), at->second.begin(), at->second.end());
  return all.empty() ? "" : figure(quantile_of(all, 0.5) / 100, " x");
}

std::string best_speedup(const sample_sums& sums) {
  std::int64_t best = -1;
  for (const auto& [task, of_task] : sums.tasks)
    if (of_task.best) best = std::max(best, of_task.best->speedup_e2);
  return best < 0 ? "" : figure(static_cast<double>(best) / 100, " x");
}

std::int64_t count_of(const std::map<std::string, std::int64_t>& counts, const char* name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

std::string state_text(const run_view& view) {
  std::string text(to_string(view.state()));
  return view.damage().empty() ? text : text + ", damaged";
}

std::string steps_text(const run_view& view) {
  const auto& config = view.config();
  if (!config) return std::to_string(view.curves().last());
  return fmt::format(
      "{} of {}", view.curves().last(),
      actors::is_search(*config) ? config->run.budget_evaluations : config->learner.steps);
}

base::ordered_json rows_json(const std::vector<compared_row>& rows) {
  base::ordered_json made = base::ordered_json::array();
  for (const compared_row& row : rows)
    made.push_back({{"name", row.name}, {"values", row.values}});
  return made;
}

/// Columns as wide as their widest cell; a cell that is empty is "-".
std::string table_text(const std::vector<compared_run>& runs,
                       const std::vector<compared_row>& rows) {
  std::vector<std::size_t> widths(runs.size() + 1);
  for (const compared_row& row : rows) {
    widths[0] = std::max(widths[0], row.name.size());
    for (std::size_t i = 0; i < runs.size(); ++i)
      widths[i + 1] = std::max({widths[i + 1], row.values[i].size(), runs[i].name.size()});
  }
  std::string text = fmt::format("{:<{}}", "", widths[0]);
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += fmt::format("  {:>{}}", runs[i].name, widths[i + 1]);
  text += "\n";
  for (const compared_row& row : rows) {
    text += fmt::format("{:<{}}", row.name, widths[0]);
    for (std::size_t i = 0; i < runs.size(); ++i)
      text += fmt::format("  {:>{}}", row.values[i].empty() ? "-" : row.values[i], widths[i + 1]);
    text += "\n";
  }
  return text;
}

}  // namespace

std::vector<compared_row> compared_figures(const std::vector<compared_run>& runs) {
  std::vector<compared_row> rows = {
      {"state", {}},
      {"steps", {}},
      {"samples issued", {}},
      {"samples trained", {}},
      {"samples dropped", {}},
      {"mean reward, first tenth of the steps", {}},
      {"mean reward, last tenth", {}},
      {"right kernels, first tenth", {}},
      {"right kernels, last tenth", {}},
      {"median speed-up of right kernels, first tenth", {}},
      {"median speed-up of right kernels, last tenth", {}},
      {"best speed-up", {}},
      {"steps behind when used, mean of the last tenth", {}},
      {"tokens per second, last tenth", {}},
      {"evaluations per hour, last tenth", {}},
  };
  for (const compared_run& run : runs) {
    const step_curves& curves = run.view->curves();
    const sample_sums sums = run.view->samples();
    std::int64_t issued = 0;
    for (const auto& [state, count] : sums.states)
      issued += count;
    // Where the ledger cannot be read, a count of nothing, or of a part, is no figure of the run.
    const bool whole = run.view->has_samples();
    const auto of_ledger = [&](std::string text) { return whole ? std::move(text) : ""; };
    const std::vector<std::string> values = {
        state_text(*run.view),
        steps_text(*run.view),
        of_ledger(std::to_string(issued)),
        of_ledger(std::to_string(count_of(sums.states, "trained"))),
        of_ledger(std::to_string(count_of(sums.states, "dropped"))),
        tenth(curves, "reward", false),
        tenth(curves, "reward", true),
        tenth(curves, "ok", false, " %", 100),
        tenth(curves, "ok", true, " %", 100),
        of_ledger(median_speedup(*run.view, sums, false)),
        of_ledger(median_speedup(*run.view, sums, true)),
        of_ledger(best_speedup(sums)),
        tenth(curves, "age_mean", true),
        tenth(curves, "tokens_per_s", true),
        tenth(curves, "evaluations_per_h", true),
    };
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i].values.push_back(values[i]);
  }
  // What no run has is no row.
  std::erase_if(rows, [](const compared_row& row) {
    return std::all_of(row.values.begin(), row.values.end(),
                       [](const std::string& value) { return value.empty(); });
  });
  return rows;
}

std::vector<compared_row> compared_curve(const std::vector<compared_run>& runs,
                                         std::string_view series) {
  std::int64_t last = 0;
  for (const compared_run& run : runs)
    last = std::max(last, run.view->curves().last());
  std::vector<compared_row> rows;
  if (last == 0) return rows;
  const point_grid grid(1, last, 10);
  for (std::size_t point = 0; point < grid.points(); ++point) {
    const std::int64_t end = grid.step_of(point);
    const std::int64_t begin = point == 0 ? 0 : grid.step_of(point - 1) + 1;
    compared_row row{fmt::format("{} .. {}", std::max<std::int64_t>(begin, 1), end), {}};
    for (const compared_run& run : runs)
      row.values.push_back(figure(run.view->curves().mean(series, begin, end)));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<compared_row> compared_settings(const std::vector<compared_run>& runs) {
  // By the keys that anybody sets to something else than the default, in the order of the table.
  const actors::run_config defaults;
  std::map<std::string, compared_row> set;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].view->config()) continue;
    for (const auto& change : actors::differences(defaults, *runs[i].view->config())) {
      auto& row = set[change.path];
      if (row.values.empty())
        row = {change.path, std::vector<std::string>(runs.size(), change.before)};
      row.values[i] = change.after;
    }
  }
  std::vector<compared_row> rows;
  for (const actors::config_key& key : actors::config_keys()) {
    const auto found = set.find(key.path);
    if (found == set.end()) continue;
    compared_row& row = found->second;
    bool differs = false;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i].view->config()) row.values[i].clear();
      differs = differs || row.values[i] != row.values[0];
    }
    if (differs) rows.push_back(std::move(row));
  }
  return rows;
}

std::string compare_text(const std::vector<compared_run>& runs) {
  std::string text;
  for (const compared_run& run : runs)
    for (const std::string& remark : run.view->remarks())
      text += fmt::format("{}: {}\n", run.name, remark);
  text += table_text(runs, compared_figures(runs));
  for (const auto& [series, title] : {std::pair{"reward", "mean reward, by steps"},
                                      std::pair{"ok", "share of right kernels, by steps"}}) {
    const auto rows = compared_curve(runs, series);
    const bool there = std::any_of(rows.begin(), rows.end(), [](const compared_row& row) {
      return std::any_of(row.values.begin(), row.values.end(),
                         [](const std::string& value) { return !value.empty(); });
    });
    if (there) text += fmt::format("\n{}\n{}", title, table_text(runs, rows));
  }
  const auto settings = compared_settings(runs);
  text += settings.empty() ? "\nall have the same configuration\n"
                           : "\nkeys whose values differ\n" + table_text(runs, settings);
  return base::printable(text);
}

base::ordered_json compare_json(const std::vector<compared_run>& runs) {
  base::ordered_json shown = base::ordered_json::array();
  for (const compared_run& run : runs)
    shown.push_back({{"name", run.name},
                     {"problems", run.view->problems()},
                     {"curves", run.view->curves().to_json()},
                     {"speedups", run.view->speedups(run.view->samples())}});
  return {{"quern_page", 1},
          {"kind", "compare"},
          {"live", false},
          {"runs", std::move(shown)},
          {"figures", rows_json(compared_figures(runs))},
          {"settings", rows_json(compared_settings(runs))}};
}

}  // namespace quern::tools
