// quern explain: formulas and keys, printed from the code that computes and reads them.
#include <filesystem>

#include <fmt/ranges.h>

#include "actors/config/config_file.hpp"
#include "actors/config/key_words.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/stages.hpp"
#include "env/verdict/reward.hpp"
#include "policy/loss/explain.hpp"
#include "policy/loss/preset.hpp"
#include "storage/run_directory.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {
namespace {

/// The formula of a run, with the values in its configuration.
int explain_loss_of_run(const std::string& folder) {
  const auto present = actors::present_stage(folder);
  if (!present) return report("explain", present.error());
  const auto config = actors::load_run_config(storage::run_paths{*present}.config(), {});
  if (!config) return report("explain", config.error());
  const auto loss = config->stage == "sft" ? policy::preset_defaults(policy::preset::sft)
                                           : actors::loss_parameters_of(*config);
  fmt::print("{}: ", present->string());
  fmt::print("{}", policy::explain_loss(loss));
  return done;
}

/// Of a preset its own values.
int explain_loss(const std::string& name) {
  const auto preset = policy::parse_preset(name);
  if (preset) {
    fmt::print("{}", policy::explain_loss(policy::preset_defaults(*preset)));
    return done;
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored)) return explain_loss_of_run(name);
  return report("explain",
                {preset.error().code,
                 preset.error().message + "; a run's folder shows the run's own values"});
}

void print_reward(const env::reward_function& reward) {
  const std::string also = reward.also.empty() ? "" : fmt::format(", also {}", reward.also);
  fmt::print("{:<20} {} ({}{})\n", env::full_name(reward), reward.formula, reward.source, also);
}

/// Without a name: all of them.
int explain_rewards(const std::string& name) {
  if (!name.empty()) {
    const auto reward = env::find_reward(name);
    if (!reward) return report("explain", reward.error());
    print_reward(*reward);
    return done;
  }
  for (const env::reward_function& reward : env::all_rewards())
    print_reward(reward);
  fmt::print(
      "NAME@BASELINE is the same over that baseline alone: {}; env.baseline measures against it\n",
      fmt::join(env::all_baselines().subspan(1), ", "));
  return done;
}

int explain_key(const std::string& path) {
  const auto words = actors::key_words(path);
  if (!words) return report("explain", words.error());
  fmt::print("{}", *words);
  return done;
}

}  // namespace

int cmd_explain(int argc, char** argv) {
  CLI::App app("quern explain: what a loss, a reward or a configuration key means");
  std::string what;
  std::string name;
  app.add_option("what", what, "loss | rewards | config")
      ->required()
      ->check(CLI::IsMember({"loss", "rewards", "config"}));
  app.add_option("name", name,
                 "preset of the loss or a run's folder, one reward, or one configuration key or "
                 "group of keys");
  if (const auto code = parse(app, argc, argv)) return *code;
  if (what == "rewards") return explain_rewards(name);
  if (what == "loss") return explain_loss(name.empty() ? "group_normalised" : name);
  if (!name.empty()) return explain_key(name);
  fmt::print("{}", actors::reference_yaml());
  return done;
}

}  // namespace quern::tools
