#include "tools/cli/completion_text.hpp"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/inspect/sample_words.hpp"

namespace quern::tools {

base::expected<sampled_completion> read_completion_line(std::string_view line,
                                                        std::int64_t number) {
  QUERN_TRY(base::json value, base::parse_json(line));
  sampled_completion made;
  made.number = number;
  QUERN_TRY(made.text, base::get<std::string>(value, "text"));
  QUERN_TRY(made.truncated, base::get<bool>(value, "truncated"));
  QUERN_TRY(made.prompt_tokens, base::get<std::int64_t>(value, "prompt_tokens"));
  QUERN_TRY(made.max_tokens, base::get<std::int64_t>(value, "max_tokens"));
  made.token_ids = value.value("token_ids", base::json::array());
  made.log_probs = value.value("log_probs", base::json::array());
  return made;
}

std::string completion_text(const sampled_completion& one) {
  const std::string end = one.truncated
                              ? fmt::format("truncated: {} tokens are the limit", one.max_tokens)
                              : "ended by the policy";
  return fmt::format("--- completion {}: {}, {} ---\n{}{}", one.number,
                     actors::counted(one.tokens(), "token"), end, one.text,
                     one.text.ends_with('\n') ? "" : "\n");
}

std::string verdict_line(std::int64_t number, const env::verdict& value) {
  return fmt::format("verdict {}: {}\n", number, actors::long_verdict(value));
}

std::string tally_line(const std::vector<sampled_completion>& all) {
  std::int64_t truncated = 0;
  std::map<std::string_view, std::int64_t> verdicts;
  const sampled_completion* best = nullptr;
  for (const sampled_completion& one : all) {
    if (one.truncated) ++truncated;
    if (!one.verdict) continue;
    ++verdicts[env::name_of(one.verdict->kind)];
    if (one.verdict->kind != env::verdict_kind::ok || !one.verdict->speedup_e2) continue;
    if (best == nullptr || *one.verdict->speedup_e2 > *best->verdict->speedup_e2) best = &one;
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : verdicts)
    parts.push_back(fmt::format("{} {}", count, name));
  std::string text =
      fmt::format("{}, {} truncated", actors::counted(std::ssize(all), "completion"), truncated);
  if (!parts.empty()) text += fmt::format(": {}", fmt::join(parts, ", "));
  if (best != nullptr)
    text += fmt::format("; the fastest is number {} ({})", best->number,
                        actors::speedup_text(*best->verdict->speedup_e2));
  return text + "\n";
}

base::ordered_json completion_json(const sampled_completion& one) {
  base::ordered_json told = {{"number", one.number},
                             {"text", one.text},
                             {"tokens", one.tokens()},
                             {"truncated", one.truncated},
                             {"prompt_tokens", one.prompt_tokens},
                             {"max_tokens", one.max_tokens},
                             {"token_ids", one.token_ids},
                             {"log_probs", one.log_probs}};
  if (one.verdict) told["verdict"] = env::to_json(*one.verdict);
  return told;
}

}  // namespace quern::tools
