#include "tools/ablate/answers.hpp"

#include <algorithm>
#include <utility>

namespace quern::tools {

base::expected<std::vector<base::json>> held_out_items(const base::json& written) {
  const base::json items =
      written.is_object() ? written.value("items", base::json()) : base::json();
  if (!items.is_array()) return base::fail(base::errc::corrupt, "an evaluation set without items");
  std::vector<base::json> chosen;
  for (const base::json& item : items) {
    QUERN_TRY(const bool held_out, base::get<bool>(item, "held_out"));
    if (held_out) chosen.push_back(item);
  }
  return chosen;
}

base::expected<env::verdict> verdict_of(const base::json& item, const std::string& task,
                                        weights of) {
  const char* whose = of == weights::first ? "first" : "last";
  const base::json answer = item.value(whose, base::json());
  if (!answer.is_object())
    return base::fail(base::errc::corrupt, "an evaluation set without the {} weights' answer to {}",
                      whose, task);
  return env::parse_verdict(base::dump(answer.value("verdict", base::json())));
}

held_out_answer answer_of(const env::verdict& value, const env::reward_function& reward,
                          std::int64_t ordinal) {
  held_out_answer made{value.task, ordinal, false, 0, 0};
  const auto worth = reward.of(value);
  if (!worth) return made;
  made.judged = true;
  made.reward = *worth;
  if (value.kind == env::verdict_kind::ok)
    made.speedup = static_cast<double>(value.speedup_e2.value_or(0)) / 100;
  return made;
}

base::expected<std::vector<held_out_answer>> answers_of_evaluation_set(
    const base::json& written, const env::reward_function& reward, const measured_again& again,
    weights of) {
  QUERN_TRY(const std::vector<base::json> items, held_out_items(written));
  std::vector<held_out_answer> answers;
  std::map<std::string, std::int64_t> of_task;
  for (const base::json& item : items) {
    QUERN_TRY(const bool swapped, base::get<bool>(item, "swapped"));
    if (swapped) continue;
    QUERN_TRY(const std::string task, base::get<std::string>(item, "task"));
    QUERN_TRY(const env::verdict value, verdict_of(item, task, of));
    answers.push_back(answer_of(again.of(task, value), reward, of_task[task]++));
    answers.back().task = task;
  }
  if (answers.empty())
    return base::fail(
        base::errc::not_found,
        "an evaluation set without held-out prompts: the tasks need a held-out part, and "
        "observe.evaluation_set_held_out 1 or more");
  return answers;
}

base::expected<std::vector<shown_answer>> shown_answers_of_evaluation_set(
    const base::json& written, const env::reward_function& reward, const measured_again& again) {
  QUERN_TRY(const std::vector<base::json> items, held_out_items(written));
  std::vector<shown_answer> answers;
  std::map<std::pair<std::string, bool>, std::int64_t> of_task;
  for (const base::json& item : items) {
    const base::json shown = item.value("shown", base::json::array());
    QUERN_TRY(const auto best, base::get<std::int64_t>(item, "best_own"));
    if (!shown.is_array() || shown.empty() || best == 0) continue;
    QUERN_TRY(const bool swapped, base::get<bool>(item, "swapped"));
    QUERN_TRY(const std::string task, base::get<std::string>(item, "task"));
    QUERN_TRY(const env::verdict value, verdict_of(item, task));
    shown_answer made{
        swapped, answer_of(again.of(task, value), reward, of_task[{task, swapped}]++), {}};
    made.answer.task = task;
    made.use.right = value.kind == env::verdict_kind::ok;
    made.use.speedup_e2 = value.speedup_e2.value_or(0);
    made.use.copies = std::ranges::find(shown, base::json(value.source)) != shown.end();
    made.use.best_e2 = best;
    answers.push_back(std::move(made));
  }
  return answers;
}

std::map<std::string, std::size_t> prompts_of_tasks(const std::vector<std::string>& tasks,
                                                    std::int64_t count) {
  std::map<std::string, std::size_t> asked;
  for (std::int64_t k = 0; k < count && !tasks.empty(); ++k)
    ++asked[tasks[static_cast<std::size_t>(k) % tasks.size()]];
  return asked;
}

std::vector<held_out_answer> last_answers(const std::vector<env::verdict>& verdicts,
                                          const std::map<std::string, std::size_t>& asked,
                                          const env::reward_function& reward) {
  std::map<std::string, std::vector<const env::verdict*>> by_task;
  for (const env::verdict& one : verdicts)
    by_task[one.task].push_back(&one);
  std::vector<held_out_answer> answers;
  for (const auto& [task, wanted] : asked) {
    const auto& all = by_task[task];
    const std::size_t first = all.size() > wanted ? all.size() - wanted : 0;
    for (std::size_t k = first; k < all.size(); ++k)
      answers.push_back(answer_of(*all[k], reward, static_cast<std::int64_t>(k - first)));
  }
  return answers;
}

}  // namespace quern::tools
