#include "tools/ablate/measured_again.hpp"

#include "tools/ablate/answers.hpp"

namespace quern::tools {

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
    QUERN_TRY(const env::verdict value, verdict_of(item, task));
    if (value.kind != env::verdict_kind::ok) continue;
    QUERN_TRY(std::string source, base::get<std::string>(item["last"], "source"));
    found.push_back({task, value.source, std::move(source)});
  }
  return found;
}

void measured_again::add(env::verdict value) {
  const std::pair key{value.task, value.source};
  known_.try_emplace(key, std::move(value));
}

env::verdict measured_again::of(const std::string& task, const env::verdict& value) const {
  if (baseline_.empty() || value.kind != env::verdict_kind::ok) return value;
  const auto found = known_.find({task, value.source});
  if (found != known_.end() && found->second.kind == env::verdict_kind::ok) return found->second;
  env::verdict unknown = value;
  unknown.kind = env::verdict_kind::noisy;
  unknown.speedup_e2.reset();
  return unknown;
}

}  // namespace quern::tools
