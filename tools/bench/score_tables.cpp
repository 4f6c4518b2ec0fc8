#include "tools/bench/score_tables.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "env/judge/roofline.hpp"
#include "env/measure/stats.hpp"

namespace quern::tools {
namespace {

/// What a view takes of a task.
struct task_score {
  bool compiled = false, correct = false;
  double speedup = 0;   ///< 0: none
  double roofline = 0;  ///< share of the roofline; 0: not known
};

/// Speed-up of a correct verdict about a member, 0 where it has none.
using speedup_of = std::function<double(std::size_t member, const env::verdict& v)>;

task_score score_of(std::size_t member, const env::verdict& v, const speedup_of& speedup) {
  const bool correct = is_correct(v);
  return {is_compiled(v), correct, correct ? speedup(member, v) : 0,
          correct ? env::roofline_share(v).value_or(0) : 0};
}

task_score first_score(std::size_t member, const std::vector<bench_attempt>& attempts,
                       const speedup_of& speedup) {
  if (attempts.empty() || attempts.front().sample != 0 || attempts.front().verdict == nullptr)
    return {};
  return score_of(member, *attempts.front().verdict, speedup);
}

task_score best_score(std::size_t member, const std::vector<bench_attempt>& attempts,
                      const speedup_of& speedup) {
  task_score best;
  for (const bench_attempt& one : attempts) {
    if (one.verdict == nullptr) continue;
    const task_score score = score_of(member, *one.verdict, speedup);
    best.compiled |= score.compiled;
    best.correct |= score.correct;
    if (score.speedup <= best.speedup) continue;
    best.speedup = score.speedup;
    best.roofline = score.roofline;
  }
  return best;
}

roofline_shares shares_of(const std::vector<task_score>& scores) {
  std::vector<double> known;
  for (const task_score& one : scores)
    if (one.roofline > 0) known.push_back(one.roofline);
  if (known.empty()) return {};
  return {static_cast<std::int64_t>(known.size()), env::mean_of(known), env::median_of(known),
          *std::max_element(known.begin(), known.end())};
}

score_row row_of(std::string view, bool without_degenerate, const std::vector<task_score>& scores) {
  score_row row;
  row.view = std::move(view);
  row.without_degenerate = without_degenerate;
  row.tasks = static_cast<std::int64_t>(scores.size());
  std::vector<double> speedups;
  for (const task_score& one : scores) {
    row.compiled += one.compiled ? 1 : 0;
    row.correct += one.correct ? 1 : 0;
    if (one.speedup > 0) speedups.push_back(one.speedup);
  }
  for (std::size_t i = 0; i < kernelbench_thresholds.size(); ++i) {
    const double p = kernelbench_thresholds[i];
    row.fast[i] = rate_of(std::count_if(speedups.begin(), speedups.end(),
                                        [p](double speedup) { return speedup > p; }),
                          row.tasks);
  }
  row.speed = statistics_of(speedups, row.tasks);
  row.roofline = shares_of(scores);
  return row;
}

/// Whether sample 0 and the best of each task are the same.
bool has_one_view(const task_attempts& attempts) {
  return std::all_of(attempts.begin(), attempts.end(), [](const auto& of_task) {
    return of_task.empty() || (of_task.size() == 1 && of_task.front().sample == 0);
  });
}

/// Indices of the members, with or without degenerate ones.
std::vector<std::size_t> chosen_members(const env::suite& suite, bool without_degenerate) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < suite.members.size(); ++i)
    if (!without_degenerate || !suite.members[i].task.degenerate) chosen.push_back(i);
  return chosen;
}

std::vector<score_row> rows_of(const env::suite& suite, const task_attempts& attempts,
                               const std::function<bool(std::size_t)>& counts,
                               const speedup_of& speedup, bool any_degenerate) {
  std::vector<score_row> rows;
  const bool one_view = has_one_view(attempts);
  for (const bool best : {false, true}) {
    if (best && one_view) continue;
    for (const bool without : {false, true}) {
      if (without && !any_degenerate) continue;
      std::vector<task_score> scores;
      for (const std::size_t i : chosen_members(suite, without))
        if (counts(i))
          scores.push_back(best ? best_score(i, attempts[i], speedup)
                                : first_score(i, attempts[i], speedup));
      rows.push_back(row_of(best ? "best of each task" : "sample 0 of each task", without, scores));
    }
  }
  return rows;
}

score_table measured_table(const env::suite& suite, const task_attempts& attempts,
                           const bench_header& header, bool any_degenerate) {
  score_table table;
  table.over = fmt::format("the baseline measured beside each candidate ({})", header.protocol);
  table.rows = rows_of(
      suite, attempts, [](std::size_t) { return true; },
      [](std::size_t /*member*/, const env::verdict& v) {
        return v.speedup_e2 ? static_cast<double>(*v.speedup_e2) / 100 : 0;
      },
      any_degenerate);
  return table;
}

score_table given_table(const env::suite& suite, const task_attempts& attempts,
                        const bench_header& header, const kernelbench_baselines& given,
                        bool any_degenerate) {
  const auto mean_of = [&](std::size_t i) { return given.mean_of(suite.members[i]); };
  std::size_t found = 0;
  for (std::size_t i = 0; i < suite.members.size(); ++i)
    found += mean_of(i) ? 1 : 0;
  score_table table;
  table.over = fmt::format("the times of {} ({}), which has {} of {} tasks", given.name,
                           given.hardware_text(), found, suite.members.size());
  table.warning = fmt::format(
      "times of two measurements are compared: the baselines' ({}) were measured elsewhere, at "
      "another time and by another protocol than the candidates' ({})",
      given.hardware_text(), header.device_class);
  table.rows = rows_of(
      suite, attempts, [&](std::size_t i) { return mean_of(i).has_value(); },
      [&](std::size_t i, const env::verdict& v) {
        const auto ms = candidate_ms(v);
        return ms && ms->mean > 0 ? *mean_of(i) / ms->mean : 0;
      },
      any_degenerate);
  return table;
}

double pass_of(const std::vector<bench_attempt>& attempts, std::int64_t k) {
  const auto samples = static_cast<std::int64_t>(attempts.size());
  if (samples == 0) return 0;
  const std::int64_t correct = std::count_if(
      attempts.begin(), attempts.end(),
      [](const bench_attempt& one) { return one.verdict != nullptr && is_correct(*one.verdict); });
  return pass_at_k(samples, correct, std::min(k, samples));
}

pass_row pass_row_of(const env::suite& suite, const task_attempts& attempts,
                     std::span<const std::int64_t> pass_k, bool without_degenerate) {
  pass_row row;
  row.without_degenerate = without_degenerate;
  const auto chosen = chosen_members(suite, without_degenerate);
  row.tasks = static_cast<std::int64_t>(chosen.size());
  for (const std::int64_t k : pass_k) {
    double sum = 0;
    for (const std::size_t i : chosen)
      sum += pass_of(attempts[i], k);
    row.of_k.emplace_back(k, row.tasks > 0 ? sum / static_cast<double>(row.tasks) : 0);
  }
  return row;
}

}  // namespace

bench_scores make_scores(const env::suite& suite, const task_attempts& attempts,
                         const bench_header& header, std::span<const std::int64_t> pass_k,
                         std::span<const kernelbench_baselines> given) {
  bench_scores scores;
  scores.degenerate = std::count_if(suite.members.begin(), suite.members.end(),
                                    [](const auto& one) { return one.task.degenerate; });
  const bool any = scores.degenerate > 0;
  scores.tables.push_back(measured_table(suite, attempts, header, any));
  for (const kernelbench_baselines& one : given)
    scores.tables.push_back(given_table(suite, attempts, header, one, any));
  if (most_attempts(attempts) < 2) return scores;
  for (const bool without : {false, true})
    if (!without || any) scores.pass.push_back(pass_row_of(suite, attempts, pass_k, without));
  return scores;
}

}  // namespace quern::tools
