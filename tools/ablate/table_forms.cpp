// The figures of an ablation as text and as JSON.
#include <algorithm>

#include <fmt/format.h>

#include "tools/ablate/table.hpp"

namespace quern::tools {
namespace {

std::string interval_text(const drawn_interval& of) {
  return fmt::format("{:.2f} .. {:.2f}", of.low, of.high);
}

std::string percent_text(double share, const drawn_interval& of) {
  return fmt::format("{:.0f} % ({:.0f} .. {:.0f})", 100 * share, 100 * of.low, 100 * of.high);
}

/// A speed-up, where anything was right.
std::string speed_text(const arm_row& row, double value) {
  return row.speed.successes > 0 ? fmt::format("{:.2f}", value) : "-";
}

std::string time_text(double seconds) {
  return seconds < 120 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

base::ordered_json interval_json(const drawn_interval& of) {
  return {of.low, of.high};
}

/// Of nothing that is right there is no mean.
base::ordered_json right_reward_json(const reward_parts& parts) {
  return parts.right > 0 ? base::ordered_json(parts.right_reward) : base::ordered_json(nullptr);
}

base::ordered_json seconds_json(const arm_row& row, double seconds) {
  return row.has_times ? base::ordered_json(seconds) : base::ordered_json(nullptr);
}

base::ordered_json row_json(const arm_row& row) {
  base::ordered_json speed;
  if (row.speed.successes > 0)
    speed = {{"mean", row.speed.mean},
             {"mean_interval", interval_json(row.mean)},
             {"geometric_mean", row.speed.geometric_mean},
             {"geometric_mean_interval", interval_json(row.geometric_mean)},
             {"max", row.speed.max},
             {"p75", row.speed.p75},
             {"p50", row.speed.p50},
             {"p25", row.speed.p25}};
  return {{"arm", row.name},
          {"answers", row.speed.attempts},
          {"unjudged", row.unjudged},
          {"right", row.speed.successes},
          {"speedup", std::move(speed)},
          {"success", row.speed.success_share},
          {"success_interval", interval_json(row.success)},
          {"above_1_01", row.speed.faster_share},
          {"above_1_01_interval", interval_json(row.faster)},
          {"mean_reward", row.reward},
          {"mean_reward_interval", interval_json(row.mean_reward)},
          {"evaluations", row.evaluations},
          {"shared_evaluations", row.shared_evaluations},
          {"seconds", seconds_json(row, row.seconds)},
          {"shared_seconds", seconds_json(row, row.shared_seconds)}};
}

}  // namespace

std::string sentence_of(const arm_difference& of) {
  if (of.pairs == 0)
    return fmt::format("{} against {}: no prompt has an answer of both that was judged.", of.second,
                       of.first);
  std::string text = fmt::format(
      "{} against {}: mean reward {:.3f} against {:.3f} over {} pairs, difference {:+.3f} "
      "({:+.3f} .. {:+.3f})",
      of.second, of.first, of.reward_second, of.reward_first, of.pairs, of.reward,
      of.reward_interval.low, of.reward_interval.high);
  if (of.ratio)
    text += fmt::format(", ratio {:.2f} ({})", *of.ratio, interval_text(of.ratio_interval));
  if (of.holds()) return text + fmt::format(". {} is better: it holds.", of.second);
  if (of.reward_interval.high < 0)
    return text + fmt::format(". {} is worse: that it is better does not hold.", of.second);
  return text +
         fmt::format(". The interval has 0 in it: that {} is better does not hold.", of.second);
}

std::string speed_sentence_of(const arm_difference& of) {
  if (!of.speed_ratio) return {};
  return fmt::format("Where both are right, in {} {}, {} is x{:.2f} as fast ({}).", of.both_right,
                     of.both_right == 1 ? "pair" : "pairs", of.second, *of.speed_ratio,
                     interval_text(of.speed_ratio_interval));
}

std::string gains_sentence_of(const arm_difference& of) {
  return fmt::format(
      "What its own run brought: {} {:+.3f}, {} {:+.3f} over {} pairs, difference {:+.3f} "
      "({:+.3f} .. {:+.3f}).",
      of.first, of.reward_first, of.second, of.reward_second, of.pairs, of.reward,
      of.reward_interval.low, of.reward_interval.high);
}

std::string parts_sentence_of(const arm_difference& of) {
  const auto reward = [](const reward_parts& parts) {
    return parts.right > 0 ? fmt::format("{:.3f}", parts.right_reward) : std::string("-");
  };
  return fmt::format("Right: {:.1f} % before and {:.1f} % after; mean reward of these: {} and {}.",
                     100 * of.parts_first.right, 100 * of.parts_second.right,
                     reward(of.parts_first), reward(of.parts_second));
}

std::string to_text(const ablation_table& table) {
  constexpr auto speed_line = "{:<20} {:>7} {:>14} {:>7} {:>7} {:>7} {:>7} {:>7} {:>14}\n";
  constexpr auto share_line = "{:<20} {:>7} {:>19} {:>19} {:>7} {:>14} {:>11} {:>8}\n";
  std::string text =
      "speed-up of the right answers\n" +
      fmt::format(speed_line, "arm", "mean", "95 %", "max", "P75", "P50", "P25", "geo", "95 %");
  for (const arm_row& row : table.rows) {
    const auto speed = [&](double value) { return speed_text(row, value); };
    const bool some = row.speed.successes > 0;
    text += fmt::format(
        speed_line, row.name, speed(row.speed.mean), some ? interval_text(row.mean) : "-",
        speed(row.speed.max), speed(row.speed.p75), speed(row.speed.p50), speed(row.speed.p25),
        speed(row.speed.geometric_mean), some ? interval_text(row.geometric_mean) : "-");
  }
  text +=
      "\nall judged answers\n" + fmt::format(share_line, "arm", "answers", "right", "above 1.01",
                                             "reward", "95 %", "evaluations", "time");
  for (const arm_row& row : table.rows)
    text += fmt::format(share_line, row.name, row.speed.attempts,
                        percent_text(row.speed.success_share, row.success),
                        percent_text(row.speed.faster_share, row.faster),
                        fmt::format("{:.3f}", row.reward), interval_text(row.mean_reward),
                        row.evaluations + row.shared_evaluations,
                        row.has_times ? time_text(row.seconds + row.shared_seconds) : "-");
  text +=
      "(intervals: bootstrap over tasks and seeds; evaluations and time: of all seeds, with the "
      "stages before the arm)\n";
  if (std::ranges::any_of(table.rows, [](const arm_row& row) { return row.name == "evolve"; }))
    text += "(evolve searched the held-out tasks themselves: its row is no bar for the others)\n";
  for (const arm_row& row : table.rows)
    if (row.unjudged > 0)
      text += fmt::format("{}: evaluations told nothing about {} answers, which are left out\n",
                          row.name, row.unjudged);
  if (!table.differences.empty()) text += "\n";
  const auto add_speed = [&](const arm_difference& one) {
    if (const std::string said = speed_sentence_of(one); !said.empty()) text += "  " + said + "\n";
  };
  for (const arm_difference& one : table.differences) {
    text += sentence_of(one) + "\n";
    add_speed(one);
  }
  if (!table.gains.empty()) text += "\nwhat an arm's own run brought, on its own prompts\n";
  for (const arm_difference& one : table.gains) {
    text += sentence_of(one) + "\n";
    if (one.pairs > 0) text += "  " + parts_sentence_of(one) + "\n";
    add_speed(one);
  }
  for (const arm_difference& one : table.between_gains)
    text += gains_sentence_of(one) + "\n";
  if (!table.before.empty()) text += "\nthe weights that the arms' own runs began with\n";
  for (const arm_difference& one : table.before) {
    text += sentence_of(one) + "\n";
    add_speed(one);
  }
  return text;
}

base::ordered_json to_json(const arm_difference& one) {
  base::ordered_json made = {{"first", one.first},
                             {"second", one.second},
                             {"pairs", one.pairs},
                             {"mean_reward_first", one.reward_first},
                             {"mean_reward_second", one.reward_second},
                             {"mean_reward", one.reward},
                             {"mean_reward_interval", interval_json(one.reward_interval)},
                             {"ratio", nullptr},
                             {"ratio_interval", nullptr},
                             {"success", one.success},
                             {"success_interval", interval_json(one.success_interval)},
                             {"success_first", one.parts_first.right},
                             {"success_second", one.parts_second.right},
                             {"right_reward_first", right_reward_json(one.parts_first)},
                             {"right_reward_second", right_reward_json(one.parts_second)},
                             {"both_right", one.both_right},
                             {"speed_ratio", nullptr},
                             {"speed_ratio_interval", nullptr},
                             {"holds", one.holds()}};
  if (one.speed_ratio) {
    made["speed_ratio"] = *one.speed_ratio;
    made["speed_ratio_interval"] = interval_json(one.speed_ratio_interval);
  }
  if (one.ratio) {
    made["ratio"] = *one.ratio;
    made["ratio_interval"] = interval_json(one.ratio_interval);
  }
  return made;
}

base::ordered_json to_json(const ablation_table& table) {
  base::ordered_json rows = base::ordered_json::array(), differences = base::ordered_json::array(),
                     gains = base::ordered_json::array(),
                     between_gains = base::ordered_json::array();
  for (const arm_row& row : table.rows)
    rows.push_back(row_json(row));
  for (const arm_difference& one : table.differences)
    differences.push_back(to_json(one));
  for (const arm_difference& one : table.gains)
    gains.push_back(to_json(one));
  for (const arm_difference& one : table.between_gains)
    between_gains.push_back({{"first", one.first},
                             {"second", one.second},
                             {"pairs", one.pairs},
                             {"gain_first", one.reward_first},
                             {"gain_second", one.reward_second},
                             {"difference", one.reward},
                             {"difference_interval", interval_json(one.reward_interval)}});
  base::ordered_json before = base::ordered_json::array();
  for (const arm_difference& one : table.before)
    before.push_back(to_json(one));
  return {{"quern_ablation", 1},
          {"arms", std::move(rows)},
          {"differences", std::move(differences)},
          {"gains", std::move(gains)},
          {"between_gains", std::move(between_gains)},
          {"before", std::move(before)}};
}

}  // namespace quern::tools
