#include "actors/inspect/sample_list.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/inspect/columns.hpp"
#include "actors/inspect/sample_words.hpp"
#include "actors/orchestrator/sample_blob.hpp"

namespace quern::actors {
namespace {

using storage::listed_sample;

constexpr std::string_view row_format = "{:>8}  {:<34}  {:>8}  {:<9}  {}\n";

std::string version_span(const storage::sample_row& row) {
  if (!row.v_min) return "-";
  const std::int64_t last = row.v_max.value_or(*row.v_min);
  return *row.v_min == last ? std::to_string(last) : fmt::format("{}-{}", *row.v_min, last);
}

std::string reward_cell(const storage::sample_row& row) {
  return row.reward ? fmt::format("{:.4f}", *row.reward) : "-";
}

std::string row_of(const listed_sample& sample, std::string_view became) {
  return fmt::format(fmt::runtime(row_format), sample.row.id,
                     sample.verdict ? short_verdict(*sample.verdict) : "-", reward_cell(sample.row),
                     version_span(sample.row), became);
}

std::string became_text(const listed_sample& sample) {
  using storage::sample_state;
  const std::int64_t step = sample.row.step.value_or(0);
  switch (sample.row.state) {
    case sample_state::dropped:
      return fmt::format("dropped ({})", sample.row.drop_reason);
    case sample_state::trained:
      return fmt::format("trained by step {}", step);
    case sample_state::consumed:
      return fmt::format("used by step {}, no checkpoint yet", step);
    default:
      return words_for_state(sample.row);
  }
}

std::string mean_text(const std::vector<listed_sample>& samples, std::int64_t group) {
  double sum = 0;
  std::int64_t rewarded = 0;
  for (const listed_sample& one : samples) {
    if (one.row.group != group || !one.row.reward) continue;
    sum += *one.row.reward;
    ++rewarded;
  }
  if (rewarded == 0) return "no rewards yet";
  return fmt::format("mean reward {:.4f} of {}", sum / static_cast<double>(rewarded),
                     counted(rewarded, "sample"));
}

std::string head_of(const chosen_samples& chosen) {
  std::map<std::string, std::int64_t> verdicts;
  std::vector<std::int64_t> groups;
  for (const listed_sample& one : chosen.samples) {
    if (groups.empty() || groups.back() != one.row.group) groups.push_back(one.row.group);
    if (!one.verdict) continue;
    const auto value = read_verdict(*one.verdict);
    ++verdicts[value ? std::string(env::name_of(value->kind)) : "unreadable"];
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  std::vector<std::string> parts;
  for (const auto& [name, count] : verdicts)
    parts.push_back(fmt::format("{} {}", count, name));
  return fmt::format("{}{} of {}{}{}\n", chosen.step ? fmt::format("step {}: ", *chosen.step) : "",
                     counted(static_cast<std::int64_t>(chosen.samples.size()), "sample"),
                     counted(static_cast<std::int64_t>(groups.size()), "group"),
                     parts.empty() ? "" : ": ", fmt::join(parts, ", "));
}

std::string completion_text(const listed_sample& sample, const storage::blob_store& texts) {
  const auto rule = [&](std::string_view says) {
    return fmt::format("--- sample {}{}{} ---\n", sample.row.id, says.empty() ? "" : ": ", says);
  };
  if (!sample.row.tokens_hash) return rule("no completion");
  const auto text = read_completion(sample.row, texts);
  if (!text) return rule(text.error().message);
  return rule("") + *text + (text->ends_with('\n') ? "" : "\n");
}

/// As completion_text, with verdict and reward below the heading: the line of the sample stands
/// further off.
std::string column_text(const listed_sample& sample, const storage::blob_store& texts) {
  std::string text = completion_text(sample, texts);
  text.insert(text.find('\n') + 1,
              fmt::format("{}, reward {}\n", sample.verdict ? short_verdict(*sample.verdict) : "-",
                          reward_cell(sample.row)));
  return text;
}

std::string end_of(const chosen_samples& chosen) {
  if (chosen.left_out == 0) return {};
  return fmt::format("{}{} more: --limit N shows N samples\n", chosen.left_out,
                     chosen.more ? " or" : "");
}

}  // namespace

base::expected<std::string> read_completion(const storage::sample_row& row,
                                            const storage::blob_store& texts) {
  if (!row.tokens_hash)
    return base::fail(base::errc::not_found, "sample {} has no completion yet", row.id);
  QUERN_TRY(const std::string blob, texts.get(*row.tokens_hash));
  QUERN_TRY(auto sample, decode_sample(blob));
  return std::move(sample.text);
}

std::string list_text(const chosen_samples& chosen, const storage::blob_store* texts,
                      std::size_t width) {
  std::string text = head_of(chosen);
  text += fmt::format(fmt::runtime(row_format), "sample", "verdict", "reward", "versions",
                      "what became of it");
  const bool grouped = !chosen.ranked;
  const bool beside = grouped && columns_within(width) > 1;
  std::vector<std::string> completions;  // that wait for the last one of their group
  const auto print_completions = [&] {
    text += side_by_side(completions, width);
    completions.clear();
  };
  std::int64_t group = 0;
  for (const listed_sample& one : chosen.samples) {
    if (grouped && one.row.group != group) {
      print_completions();
      group = one.row.group;
      text += fmt::format("group {}, task {}, {}\n", group, task_name(one.task),
                          mean_text(chosen.samples, group));
    }
    text +=
        row_of(one, grouped ? became_text(one)
                            : fmt::format("{}, task {}", became_text(one), task_name(one.task)));
    if (texts != nullptr)
      completions.push_back(beside ? column_text(one, *texts) : completion_text(one, *texts));
    if (!beside) print_completions();
  }
  print_completions();
  return text + end_of(chosen);
}

base::ordered_json line_json(const listed_sample& sample) {
  const storage::sample_row& row = sample.row;
  base::ordered_json told = {{"sample", row.id},
                             {"group", row.group},
                             {"member", row.k},
                             {"task", sample.task},
                             {"state", storage::to_string(row.state)}};
  if (row.step) told["step"] = *row.step;
  if (!row.drop_reason.empty()) told["drop_reason"] = row.drop_reason;
  told["became"] = words_for_state(row);
  if (row.v_min) told["versions"] = {*row.v_min, row.v_max.value_or(*row.v_min)};
  if (row.reward) told["reward"] = *row.reward;
  if (!sample.verdict) return told;
  const auto value = read_verdict(*sample.verdict);
  told["verdict"] = value ? env::name_of(value->kind) : "unreadable";
  if (value && !value->reason.empty()) told["kind"] = value->reason;
  if (value && value->speedup_e2) told["speedup_e2"] = *value->speedup_e2;
  return told;
}

base::ordered_json list_json(const chosen_samples& chosen, const storage::blob_store* texts) {
  base::ordered_json samples = base::ordered_json::array();
  for (const listed_sample& one : chosen.samples) {
    base::ordered_json told = line_json(one);
    if (texts != nullptr && one.row.tokens_hash) {
      const auto text = read_completion(one.row, *texts);
      if (text)
        told["text"] = *text;
      else
        told["text_lost"] = text.error().message;
    }
    samples.push_back(std::move(told));
  }
  base::ordered_json told = {{"quern_show", 2}};
  if (chosen.step) told["step"] = *chosen.step;
  told["samples"] = std::move(samples);
  told["left_out"] = chosen.left_out;
  return told;
}

}  // namespace quern::actors
