// quern export: a policy as a Hugging Face folder. quern-torch writes the model, and this command a
// README.md of where it comes from.
#include "actors/config/policy_folder.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/write_signals.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/model_card.hpp"
#include "tools/cli/policy_options.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/torch_child.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// The folder of the model; says what was chosen. Chosen once: a run that goes on makes newer ones.
base::expected<fs::path> choose_model(const export_options& options) {
  QUERN_TRY(const fs::path place, find_model(options.from));
  const auto older =
      options.older ? actors::older_checkpoint::take : actors::older_checkpoint::refuse;
  QUERN_TRY(const auto found, actors::find_policy(place, older));
  for (const std::string& note : found.notes)
    base::log_warn("checkpoint", "{}", note);
  return found.model;
}

base::status write_card(const fs::path& model, const fs::path& to) {
  QUERN_TRY(const card_facts facts, card_facts_of(model));
  return base::write_file_atomic(to / "README.md", model_card(facts));
}

}  // namespace

int cmd_export(int argc, char** argv) {
  base::ignore_broken_pipes();
  export_options options;
  if (const auto code = parse_export(argc, argv, options)) return *code;
  const auto model = choose_model(options);
  if (!model) return report("export", model.error());
  const auto code = run_torch("export", {"--shard-mb", std::to_string(options.shard_mb), "--",
                                         model->string(), options.to});
  if (!code) return report("export", code.error());
  if (*code != done) return *code;
  if (const auto written = write_card(*model, options.to); !written)
    return report("export", {written.error().code, "the model is written, its README.md is not: " +
                                                       written.error().message});
  tell(stdout, "{}\n", options.to);
  return done;
}

}  // namespace quern::tools
