#include "tools/ablate/exemplar_table.hpp"

#include <fmt/format.h>

namespace quern::tools {
namespace {

shown_figures figures_of(const ablation_arm& arm, bool swapped) {
  shown_figures made;
  std::int64_t right = 0;
  double reward = 0;
  for (const arm_result& result : arm.seeds)
    for (const shown_answer& one : result.shown) {
      if (one.swapped != swapped || !one.answer.judged) continue;
      made.use.add(one.use);
      right += one.use.right ? 1 : 0;
      reward += one.answer.reward;
    }
  if (made.use.judged() == 0) return made;
  const auto judged = static_cast<double>(made.use.judged());
  made.success = static_cast<double>(right) / judged;
  made.reward = reward / judged;
  return made;
}

/// As an arm of its own, whose answers are compared as those of arms are.
ablation_arm side_of(const ablation_arm& arm, bool swapped) {
  ablation_arm side{swapped ? "another task" : "the task", {}};
  for (const arm_result& result : arm.seeds) {
    arm_result made;
    made.seed = result.seed;
    for (const shown_answer& one : result.shown)
      if (one.swapped == swapped) made.answers.push_back(one.answer);
    side.seeds.push_back(std::move(made));
  }
  return side;
}

std::string line_of(const std::string& name, const char* shows, const shown_figures& of) {
  return fmt::format("{:<20} {:<16} {:>7} {:>7} {:>9} {:>7} {:>13} {:>7}\n", name, shows,
                     of.use.judged(), fmt::format("{:.0f} %", 100 * of.success),
                     fmt::format("{:.0f} %", 100 * of.use.improved()),
                     fmt::format("{:.0f} %", 100 * of.use.copied()),
                     of.use.over_best() > 0 ? fmt::format("{:.2f}", of.use.over_best()) : "-",
                     fmt::format("{:.3f}", of.reward));
}

std::string control_sentence(const exemplar_row& row) {
  const arm_difference& of = *row.difference;
  std::string text = fmt::format(
      "{}: mean reward {:.3f} with kernels of the task, {:.3f} with those of another, over {} "
      "pairs, difference {:+.3f} ({:+.3f} .. {:+.3f}). ",
      row.name, of.reward_second, of.reward_first, of.pairs, of.reward, of.reward_interval.low,
      of.reward_interval.high);
  return text + (of.holds() ? "What is shown is used." : "That what is shown helps does not hold.");
}

base::ordered_json figures_json(const shown_figures& of) {
  base::ordered_json made = {{"answers", of.use.judged()},      {"success", of.success},
                             {"improved", of.use.improved()},   {"copied", of.use.copied()},
                             {"over_best", of.use.over_best()}, {"mean_reward", of.reward}};
  if (of.use.over_best() == 0) made["over_best"] = nullptr;
  return made;
}

}  // namespace

std::vector<exemplar_row> exemplar_rows(const std::vector<ablation_arm>& arms, std::uint64_t seed) {
  std::vector<exemplar_row> rows;
  for (const ablation_arm& arm : arms) {
    exemplar_row row{arm.name, figures_of(arm, false), figures_of(arm, true), std::nullopt};
    if (row.own.use.judged() == 0) continue;
    if (row.swapped.use.judged() > 0)
      row.difference = difference_of(side_of(arm, true), side_of(arm, false), seed);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string to_text(const std::vector<exemplar_row>& rows) {
  if (rows.empty()) return "";
  std::string text =
      "\nanswers to held-out prompts that showed two kernels\n" +
      fmt::format("{:<20} {:<16} {:>7} {:>7} {:>9} {:>7} {:>13} {:>7}\n", "arm", "kernels of",
                  "answers", "right", "improves", "copies", "over the best", "reward");
  for (const exemplar_row& row : rows) {
    text += line_of(row.name, "the task", row.own);
    if (row.difference) text += line_of(row.name, "another task", row.swapped);
  }
  text +=
      "(improves: on the best kernel of the task that was shown, or would have been; over the "
      "best: "
      "geometric mean over right answers)\n";
  for (const exemplar_row& row : rows)
    if (row.difference) text += control_sentence(row) + "\n";
  return text;
}

base::ordered_json to_json(const std::vector<exemplar_row>& rows) {
  base::ordered_json list = base::ordered_json::array();
  for (const exemplar_row& row : rows) {
    base::ordered_json entry = {{"arm", row.name},
                                {"own", figures_json(row.own)},
                                {"swapped", nullptr},
                                {"difference", nullptr}};
    if (row.difference) {
      entry["swapped"] = figures_json(row.swapped);
      entry["difference"] = to_json(*row.difference);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace quern::tools
