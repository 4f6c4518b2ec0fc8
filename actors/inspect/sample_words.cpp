#include "actors/inspect/sample_words.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "actors/decide/sample_book.hpp"
#include "actors/orchestrator/search_start.hpp"
#include "env/judge/explain.hpp"

namespace quern::actors {
namespace {

/// The table of storage/README.md, in words.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> drop_words = {{
    {"noisy", "no attempt could measure it well enough"},
    {"infra_error", "the evaluators failed at every attempt, which says nothing about the kernel"},
    {"invalid_reference", "the reference of its task failed, which says nothing about the kernel"},
    {"unconfirmed", "a second measurement did not bear out what the first one claimed"},
    {"unsupported", "no host of the run's device class can run it"},
    {drop_reason::group_too_small, "fewer than two samples of its group were left to compare"},
    {drop_reason::stale, "its tokens were older than actors.staleness allows for the next step"},
    {drop_reason::non_finite,
     "the gradient of its batch was not finite, so that step was left out"},
    {drop_reason::no_learner, "its run is a search, which trains nothing: this is a normal end"},
    {drop_reason::group_mostly_lost,
     "the evaluators failed for more than half of its group, and the rest is no random part"},
    {drop_reason::prompt_lost, "the stored prompt of its group was missing or damaged"},
    {"stopped", "the run was stopped, or had made all its steps"},
}};

}  // namespace

std::string_view words_for_drop(std::string_view reason) {
  for (const auto& [known, words] : drop_words)
    if (known == reason) return words;
  return reason;
}

std::string words_for_state(const storage::sample_row& row) {
  using storage::sample_state;
  switch (row.state) {
    case sample_state::issued:
      return "waits for a generator";
    case sample_state::generated:
      return "waits for a verdict";
    case sample_state::evaluated:
      return "waits for the other samples of its group";
    case sample_state::admitted:
      return "waits for a gradient step";
    case sample_state::consumed:
      return fmt::format("step {} used it; no checkpoint holds that step yet",
                         row.step.value_or(0));
    case sample_state::trained:
      return fmt::format("step {} used it, and a checkpoint holds that step", row.step.value_or(0));
    case sample_state::dropped:
      break;
  }
  return fmt::format("dropped ({}): {}", row.drop_reason, words_for_drop(row.drop_reason));
}

std::optional<env::verdict> read_verdict(const storage::stored_verdict& stored) {
  auto read = env::parse_verdict(stored.row.json);
  return read ? std::optional(std::move(*read)) : std::nullopt;
}

std::string short_verdict(const storage::stored_verdict& stored) {
  const auto value = read_verdict(stored);
  if (!value) return "unreadable";
  std::string text(env::name_of(value->kind));
  if (value->speedup_e2) text += " " + speedup_text(*value->speedup_e2);
  if (!value->reason.empty()) text += fmt::format(" ({})", value->reason);
  return text;
}

std::string long_verdict(const env::verdict& value) {
  const found_kernel times = found_kernel_of(value, 0);
  if (value.kind == env::verdict_kind::ok && times.high_e2 > 0)
    return fmt::format("{}; 95 % interval {} to {}", env::outcome_line(value),
                       speedup_text(times.low_e2), speedup_text(times.high_e2));
  return env::outcome_line(value);
}

std::string long_verdict(const storage::stored_verdict& stored) {
  const auto value = read_verdict(stored);
  if (!value) return "unreadable: what run.db holds is no verdict of this build";
  return long_verdict(*value);
}

std::string_view task_name(std::string_view task) {
  return task.substr(0, task.find('@'));
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string speedup_text(std::int64_t e2) {
  return fmt::format("{}.{:02}x", e2 / 100, e2 % 100);
}

}  // namespace quern::actors
