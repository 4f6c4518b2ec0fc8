#include "tools/ablate/measured_again.hpp"

#include "tools/ablate/answers.hpp"

namespace quern::tools {

std::string name_of_task(std::string_view id) {
  return std::string(id.substr(0, id.find('@')));
}

std::string reward_over(std::string_view name, std::string_view baseline) {
  std::string made(name.substr(0, name.find('@')));
  if (!baseline.empty()) made += "@" + std::string(baseline);
  return made;
}

base::expected<std::vector<right_answer>> right_answers_of_evaluation_set(
    const base::json& written) {
  QUERN_TRY(const std::vector<base::json> items, held_out_items(written));
  std::vector<right_answer> found;
  for (const base::json& item : items) {
    QUERN_TRY(const std::string task, base::get<std::string>(item, "task"));
    QUERN_TRY(const env::verdict value, last_verdict(item, task));
    if (value.kind != env::verdict_kind::ok) continue;
    QUERN_TRY(std::string source, base::get<std::string>(item["last"], "source"));
    found.push_back({name_of_task(task), value.source, std::move(source)});
  }
  return found;
}

void measured_again::add(std::string_view task, std::string_view hash, env::verdict value) {
  known_.insert_or_assign({std::string(task), std::string(hash)}, std::move(value));
}

env::verdict measured_again::of(const env::verdict& value) const {
  if (value.kind != env::verdict_kind::ok) return value;
  const auto found = known_.find({name_of_task(value.task), value.source});
  return found == known_.end() ? value : found->second;
}

}  // namespace quern::tools
