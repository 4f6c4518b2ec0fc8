// quern sample: what a policy writes for a prompt, or for a task as a run asks it, and what that is
// worth. quern-torch writes the completions; they are judged when it has ended, on a machine that
// does nothing else.
#include <fstream>

#include "actors/config/policy_folder.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/write_signals.hpp"
#include "policy/text/chat.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/completion_text.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/input.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/policy_options.hpp"
#include "tools/cli/sample_judge.hpp"
#include "tools/cli/shipped_tasks.hpp"
#include "tools/cli/source_options.hpp"
#include "tools/cli/task_prompt.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/torch_child.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

struct sample_arguments {
  std::string model, prompt_file, template_name, device_class;
  sampling_options sampling;
  bool chat = true, asks_for_chat = false, judges = false, show_prompt = false, json = false;
  eval_arguments judged;  ///< with the task
};

/// What is asked, of which model.
struct question {
  fs::path model;
  std::string prompt;
  std::string about;  ///< "task relu_rows, template contrastive_demo"
  policy::chat_format format = policy::chat_format::none;
};

/// The folder of the model, with what was chosen told.
base::expected<fs::path> model_of(const std::string& word) {
  QUERN_TRY(const fs::path place, find_model(word));
  QUERN_TRY(const auto found, actors::find_policy(place, actors::older_checkpoint::take));
  for (const std::string& note : found.notes)
    base::log_warn("checkpoint", "{}", note);
  return found.model;
}

base::expected<question> question_about_task(sample_arguments& a, fs::path model,
                                             const env::found_task& found) {
  task_prompt_order order{a.judged.task, a.judged.tasks.kernelbench, std::move(model),
                          a.template_name, a.device_class};
  QUERN_TRY(task_prompt made, make_task_prompt(order, found));
  // As the run samples, too.
  if (made.run) {
    if (!a.sampling.max_tokens) a.sampling.max_tokens = made.run->policy.max_new_tokens;
    if (!a.sampling.temperature) a.sampling.temperature = made.run->policy.temperature;
  }
  question asked;
  asked.model = std::move(order.model);
  asked.prompt = std::move(made.text);
  asked.about = fmt::format("task {}, template {}, {}", found.task.name, made.template_name,
                            made.device_class);
  return asked;
}

base::expected<question> question_of_file(const sample_arguments& a, fs::path model) {
  question asked;
  asked.model = std::move(model);
  QUERN_TRY(asked.prompt, read_input(a.prompt_file, largest_prompt, "a prompt"));
  asked.about = a.prompt_file == "-" ? "standard input" : a.prompt_file;
  return asked;
}

base::status settle_chat(const sample_arguments& a, question& asked) {
  if (!a.chat) return {};
  QUERN_TRY(asked.format, policy::load_chat_format(asked.model));
  if (a.asks_for_chat && asked.format == policy::chat_format::none)
    tell(stderr,
         "quern sample: --chat: {} has no chat template (chat_template.jinja, or chat_template in "
         "tokenizer_config.json): the prompt is given as it is\n",
         asked.model.string());
  return {};
}

/// The exit code of quern-torch, which has said what is wrong where it is not 0.
base::expected<int> generate(const sample_arguments& a, const question& asked,
                             const fs::path& folder) {
  QUERN_CHECK(base::write_file_atomic(folder / "prompt", asked.prompt));
  std::vector<std::string> words = sampling_words(a.sampling);
  if (!a.chat) words.emplace_back("--plain");
  words.insert(words.end(), {"--prompt", (folder / "prompt").string(), "--out",
                             (folder / "out").string(), "--", asked.model.string()});
  return run_torch("sample", std::move(words));
}

base::expected<std::vector<sampled_completion>> read_completions(const fs::path& file) {
  std::vector<sampled_completion> all;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    QUERN_TRY(auto one, read_completion_line(line, std::ssize(all) + 1));
    all.push_back(std::move(one));
  }
  return all;
}

std::string heading(const sample_arguments& a, const question& asked, std::int64_t prompt_tokens) {
  const auto format = asked.format == policy::chat_format::none
                          ? std::string("no chat template")
                          : fmt::format("chat template {}", policy::name_of(asked.format));
  return fmt::format("{} for {}: prompt of {} tokens, {}\n", a.model, asked.about, prompt_tokens,
                     format);
}

/// Prints each as soon as it is judged. Whether every verdict is about its completion.
bool print_all(const sample_arguments& a, std::vector<sampled_completion>& all,
               std::optional<sample_judge>& judge) {
  bool judged = true;
  for (sampled_completion& one : all) {
    if (!a.json) tell(stdout, "{}", base::printable(completion_text(one)));
    if (judge) {
      std::fflush(stdout);
      one.verdict = judge->judge(one.text);
      judged = judged && one.verdict->kind != env::verdict_kind::infra_error &&
               one.verdict->kind != env::verdict_kind::invalid_reference;
      if (!a.json) tell(stdout, "{}", base::printable(verdict_line(one.number, *one.verdict)));
    }
    if (a.json) tell(stdout, "{}\n", base::dump(completion_json(one)));
    std::fflush(stdout);
  }
  if (!a.json) tell(stdout, "{}", tally_line(all));
  return judged;
}

struct prepared {
  question asked;
  std::optional<sample_judge> judge;
};

/// All that can be refused before a model is loaded.
base::expected<prepared> prepare(sample_arguments& a) {
  prepared made;
  std::optional<env::found_task> found;
  if (!a.judged.task.empty()) {
    QUERN_TRY(a.judged.task, resolve_task(a.judged.task, a.judged.tasks));
    QUERN_TRY(found, env::find_task(a.judged.task, a.judged.tasks));
  }
  QUERN_TRY(fs::path model, model_of(a.model));
  if (found) {
    QUERN_TRY(made.asked, question_about_task(a, std::move(model), *found));
  } else {
    QUERN_TRY(made.asked, question_of_file(a, std::move(model)));
  }
  QUERN_CHECK(settle_chat(a, made.asked));
  if (a.judges) {
    QUERN_TRY(made.judge, sample_judge::open(a.judged, *found));
  }
  return made;
}

int sample(sample_arguments a) {
  auto made = prepare(a);
  if (!made) return report("sample", made.error());
  if (a.show_prompt) {
    const std::string& text = made->asked.prompt;
    tell(stdout, "{}{}", base::printable(text), text.ends_with('\n') ? "" : "\n");
    return done;
  }
  auto folder = base::temp_folder::make_held("quern-sample");
  if (!folder) return report("sample", folder.error());
  const auto code = generate(a, made->asked, folder->path());
  if (!code) return report("sample", code.error());
  if (*code != done) return *code;
  auto all = read_completions(folder->path() / "out");
  if (!all) return report("sample", all.error());
  if (!a.json && !all->empty())
    tell(stdout, "{}", base::printable(heading(a, made->asked, all->front().prompt_tokens)));
  return print_all(a, *all, made->judge) ? done : failed;
}

}  // namespace

int cmd_sample(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app(
      "quern sample: what a policy writes for a task or a prompt, on the CPU. For a task the "
      "prompt "
      "is the one of a run, without exemplars; --eval judges what was written as quern eval does");
  sample_arguments a;
  app.add_option("model", a.model,
                 "Hugging Face folder (policy/demo), checkpoint, run, chain, or the name of a run "
                 "below runs/: its last weights write, whatever policy.engine it has")
      ->required();
  auto* const task = app.add_option(
      "--task", a.judged.task, "NAME.task.yaml, the name of a shipped task" + env::foreign_forms());
  auto* const prompt =
      app.add_option("--prompt", a.prompt_file, "file with a prompt instead; -: standard input")
          ->excludes(task);
  app.add_option("--template", a.template_name,
                 "prompt template of env/prompts. Not given: that of the model's run, else the "
                 "default of policy.template_name")
      ->needs(task);
  app.add_option("--device-class", a.device_class,
                 "what the prompt says of the device. Not given: the run's, else this machine's")
      ->needs(task);
  app.add_flag("--show-prompt", a.show_prompt, "print the prompt, and write nothing for it");
  auto* const chat =
      app.add_flag("--chat,!--no-chat", a.chat,
                   "the prompt as a message in the policy's chat template, where it has one: as in "
                   "training, and so unless --no-chat gives the prompt as it is");
  auto* const judges =
      app.add_flag("--eval", a.judges, "judge each completion, and tell how fast its kernel is")
          ->needs(task);
  add_sampling_options(app, a.sampling);
  app.add_flag("--json", a.json,
               "an object a line: number, text, tokens, truncated, verdict and more "
               "(docs/formats/sampled.md)");
  app.add_flag("--best-effort", a.judged.best_effort,
               "judge although sandbox layers are missing (see quern doctor)")
      ->needs(judges);
  app.add_flag("--verify-only", a.judged.verify_only, "check kernels, but do not measure them")
      ->needs(judges);
  app.add_option("--core", a.judged.core, "core to measure on; -1 chooses one")
      ->check(whole_within(-1, 4095))
      ->capture_default_str()
      ->needs(judges);
  app.add_option("--gpu", a.judged.gpu, "GPU to measure on, for tasks of lanes on a GPU")
      ->check(whole_within(0, 63))
      ->capture_default_str()
      ->needs(judges);
  add_timeout_option(app, a.judged.timeout_s);
  add_source_options(app, a.judged.tasks);
  if (const auto code = parse(app, argc, argv)) return *code;
  if (task->count() == 0 && prompt->count() == 0) {
    tell(stderr,
         "quern sample: nothing is asked of {}: say --task TASK (a file or the name of a shipped "
         "task) or --prompt FILE\n",
         a.model);
    return usage;
  }
  a.asks_for_chat = chat->count() > 0;
  return sample(std::move(a));
}

}  // namespace quern::tools
