// Prompts and recorded completions, before a run begins.
#include "actors/config/prompt_check.hpp"

#include <functional>

#include "actors/orchestrator/prompter.hpp"
#include "actors/orchestrator/recorded_book.hpp"
#include "base/log.hpp"
#include "policy/text/model_config.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

bool is_recorded(const run_config& config) {
  return config.policy.engine == "recorded" && config.stage != "sft";
}

/// Every prompt of a task is the same, so that its hash can be known before the run.
bool shows_no_exemplars(const run_config& config) {
  return config.replay.exemplars == "none" || config.replay.without_exemplars_share >= 1;
}

/// `by_prompt`: whether the one prompt of a task is answered; asked where its hash is known.
base::status check_answered(const run_config& config, const std::vector<book_task>& tasks,
                            const recorded_book& book,
                            const std::function<bool(const book_task&)>& by_prompt) {
  const bool known = shows_no_exemplars(config);
  const book_task* first = nullptr;
  std::size_t missing = 0, trained = 0;
  for (const book_task& task : tasks) {
    if (task.held_out) continue;
    ++trained;
    if (book.has_task(task.id) || (known && by_prompt(task))) continue;
    if (missing++ == 0) first = &task;
  }
  if (missing == 0) return {};
  return fail(errc::invalid_argument,
              "policy.recorded is '{}': {} of the run's {} tasks have no completion, the first is "
              "{}: add lines with this \"task\"{}, or leave the tasks out",
              config.policy.recorded, missing, trained, first->id,
              book.has_prompts() && !known
                  ? " (\"prompt\" alone does where replay.exemplars is none: hashes of prompts "
                    "that show kernels are not known before)"
                  : "");
}

base::status check_answer_lengths(const run_config& config, const recorded_book& book) {
  QUERN_TRY(const fs::path folder, model_folder(config));
  QUERN_TRY(const policy::model_config model, policy::load_model_config(folder));
  QUERN_TRY(const policy::tokenizer text, policy::tokenizer::load(folder));
  QUERN_TRY(const policy::chat_format format, policy::load_chat_format(folder));
  for (const recorded_completion& one : book.playable()) {
    const auto tokens = std::ssize(policy::encode_answer(text, format, model.eos_tokens, one.text));
    if (tokens <= config.policy.max_new_tokens) continue;
    return fail(errc::invalid_argument,
                "policy.recorded is '{}': line {}: the completion has {} tokens, "
                "policy.max_new_tokens is {}: raise that, or leave the line out",
                config.policy.recorded, one.line, tokens, config.policy.max_new_tokens);
  }
  return {};
}

}  // namespace

base::status check_prompts(const run_config& config, const std::string& device_class,
                           const std::vector<book_task>& tasks, const fs::path& run) {
  QUERN_TRY(const prompter prompts, prompter::make(config, device_class));
  QUERN_CHECK(prompts.check(tasks));
  if (!is_recorded(config)) return {};
  QUERN_TRY(const recorded_book book, load_recorded(config, run, tasks));
  QUERN_CHECK(check_answered(config, tasks, book, [&](const book_task& task) {
    return book.has_prompt(base::xxh128(prompts.render(task, {}).text));
  }));
  QUERN_CHECK(check_answer_lengths(config, book));
  base::log_info("config", "policy.recorded: {} completions may be played, {} are of other tasks",
                 book.playable().size(), book.of_other_tasks());
  return {};
}

base::status check_recorded(const run_config& config, const std::vector<book_task>& tasks,
                            const fs::path& run) {
  if (!is_recorded(config)) return {};
  QUERN_TRY(const recorded_book book, load_recorded(config, run, tasks));
  return check_answered(config, tasks, book, [&](const book_task&) { return book.has_prompts(); });
}

}  // namespace quern::actors
