// The stages of a chain, one after the other.
#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/train_run.hpp"

namespace quern::tools {
namespace fs = std::filesystem;

int run_chain(const fs::path& chain, const std::vector<std::string>& settings) {
  auto stages = actors::read_chain(chain);
  if (!stages) return report("train", stages.error());
  fs::path before;
  for (actors::stage_plan& stage : *stages) {
    const fs::path folder = chain / stage.name;
    if (is_complete_run(folder)) {
      fmt::print(stderr, "stage {} is complete\n", stage.name);
      before = folder;
      continue;
    }
    int code = done;
    const auto own = actors::settings_of_stage(settings, stage.config.stage);
    if (fs::exists(folder / "meta.json")) {
      code = go_on_with_run(folder, own, chain);
    } else {
      if (!before.empty()) {
        const auto model = actors::last_model(before);
        if (!model) return report("train", model.error());
        stage.config.policy.model = model->string();
      }
      for (const std::string& setting : own)
        if (auto set = actors::apply_setting(stage.config, setting); !set)
          return report("resume", set.error());
      fmt::print(stderr, "stage {} begins\n", stage.name);
      code = begin_run(stage.config, folder, chain);
    }
    if (code != done && code != nothing) return code;
    if (!is_complete_run(folder)) {
      fmt::print(stderr, "stopped in stage {}: quern resume {}\n", stage.name, chain.string());
      return code;
    }
    before = folder;
  }
  return done;
}

}  // namespace quern::tools
