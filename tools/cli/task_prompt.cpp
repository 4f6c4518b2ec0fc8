#include "tools/cli/task_prompt.hpp"

#include <memory>

#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/config/policy_folder.hpp"
#include "actors/orchestrator/prompter.hpp"
#include "env/verdict/baseline.hpp"
#include "storage/run_directory.hpp"

namespace quern::tools {
namespace {

base::expected<std::optional<actors::run_config>> config_of_run(
    const std::filesystem::path& model) {
  const actors::model_origin origin = actors::origin_of(model);
  if (!origin.run) return std::nullopt;
  const storage::run_paths paths{*origin.run};
  QUERN_TRY(auto config, actors::load_run_config(paths.config(), {}));
  return config;
}

/// What decides about a prompt: of the run, or by default, and of the task.
base::expected<actors::run_config> prompt_config(const task_prompt_order& order,
                                                 const env::found_task& found,
                                                 const std::optional<actors::run_config>& run) {
  QUERN_TRY(auto config, actors::load_config_text("quern_config: 2\n", "quern sample", {}));
  if (run) {
    config.policy.template_name = run->policy.template_name;
    if (run->env.lane == found.task.lane->name) config.env.device = run->env.device;
    config.env.device_class = run->env.device_class;
    config.env.host_entry = run->env.host_entry;
  }
  if (!order.template_name.empty()) config.policy.template_name = order.template_name;
  config.policy.model = order.model.string();
  config.tasks.source = "suite";
  config.tasks.suite = order.word;
  config.tasks.kernelbench = order.kernelbench;
  config.env.lane = found.task.lane->name;
  std::optional<env::suite> of = found.of_suite;
  if (!of) {
    QUERN_TRY(of, env::suite_beside(order.word));
  }
  config.env.baseline = env::name_of(of ? of->baseline : env::baseline_choice::of_task);
  return config;
}

base::expected<std::string> class_for(const task_prompt_order& order,
                                      const actors::run_config& config) {
  if (!order.device_class.empty()) return order.device_class;
  auto known = actors::device_class_of(config);
  if (known) return known;
  return base::fail(known.error().code, "{}; for a prompt --device-class NAME is enough",
                    known.error().message);
}

}  // namespace

base::expected<task_prompt> make_task_prompt(const task_prompt_order& order,
                                             const env::found_task& found) {
  task_prompt made;
  QUERN_TRY(made.run, config_of_run(order.model));
  QUERN_TRY(const auto config, prompt_config(order, found, made.run));
  QUERN_TRY(made.device_class, class_for(order, config));
  QUERN_TRY(const auto prompts, actors::prompter::make(config, made.device_class));
  const actors::book_task asked{
      env::task_id(found.task), std::make_shared<const env::task>(found.task), {}, false};
  made.text = prompts.render(asked, {}).text;
  made.template_name = config.policy.template_name;
  return made;
}

}  // namespace quern::tools
