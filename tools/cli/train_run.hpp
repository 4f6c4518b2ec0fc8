// One run from its beginning or from where it stands: what quern train and quern resume do, for a
// run alone and for the stages of a chain.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/config/stages.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "actors/supervisor.hpp"
#include "policy/text/model_config.hpp"

namespace quern::tools {

/// How a run was left.
struct run_outcome {
  int code = 0;  ///< exit_code
  /// Somebody asked for an end, be the run complete or not: no stage follows it now.
  std::optional<actors::ending> asked = std::nullopt;
};

/// run.folder, or runs/NAME.
std::filesystem::path folder_of(const actors::run_config& config);

/// As actors::check_references(). Every error is one of the configuration, as those of preflight().
base::expected<std::string> tried_references(const actors::run_config& config,
                                             const actors::task_book& tasks);

/// Checks everything, makes `folder` and trains to the end. `resume_as`: what a person resumes.
/// `made` is called once the folder is a run; its error ends the command.
run_outcome begin_run(
    const actors::run_config& config, const std::filesystem::path& folder,
    const std::filesystem::path& resume_as,
    const std::function<base::status()>& made = [] { return base::status{}; });

/// Goes on with the run in `folder`, with settings over its configuration.
run_outcome go_on_with_run(const std::filesystem::path& folder,
                           const std::vector<std::string>& settings,
                           const std::filesystem::path& resume_as);

/// The configuration of the run in `folder` with settings over it; says on stderr what changes
/// where `say`, and what was changed by hand in its config.yaml. Errors: of load_config;
/// invalid_argument for a key that is fixed, whoever changed it.
base::expected<actors::run_config> changed_config(const std::filesystem::path& folder,
                                                  const std::vector<std::string>& settings,
                                                  bool say);

/// The version that a resume of the run goes on from: steps without a checkpoint are taken again.
base::expected<std::int64_t> durable_steps(const actors::run_config& config,
                                           const std::filesystem::path& folder);

/// All steps are durable and the closing comparison, where there is one, is made.
bool is_complete_run(const actors::run_config& config, const std::filesystem::path& folder);

/// Of a complete run whose run.db has an earlier schema: says on stderr that it stays so.
void tell_schema_stays(const std::filesystem::path& folder);

/// --dry-run: the configuration, the plan and what this machine lacks for it. `begins_with`: the
/// shape of the policy that a later stage of a chain will begin with; null: the run is no such one.
int show_plan(const actors::run_config& config, const std::filesystem::path& folder,
              const policy::model_config* begins_with);

/// Whether the disk of a chain holds the checkpoints of all its stages, where their shape is known.
base::status check_room(const std::vector<actors::stage_plan>& stages,
                        const std::filesystem::path& chain);

/// The stages of a chain one after the other, from the first that is not complete. A stage that
/// pauses, stops or fails ends it. Settings of all stages are checked before one goes on, and kept.
int run_chain(const std::filesystem::path& chain, const std::vector<std::string>& settings);

}  // namespace quern::tools
