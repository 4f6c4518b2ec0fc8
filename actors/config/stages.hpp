// Several stages in one file: the keys that all have in common, then a list `stages` of what each
// has of its own. Each becomes a run directory below the chain's own; the policy of a stage begins
// as that of the stage before it ended.
//
//   CHAIN/stages/1-sft.yaml, …                      the configurations, whole
//   CHAIN/stages/1-sft.begun, …                     empty: the stage has begun
//   CHAIN/1-sft/, CHAIN/2-self_train/, …            the runs, made one after the other
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"

namespace quern::actors {

struct stage_plan {
  std::string name;  ///< "1-sft": number and stage, the name of its folder
  run_config config;
};

/// The stages of a file; one without a name for a file that has no `stages`. Settings are applied
/// as settings_of_stage says. policy.model of a stage after the first is empty unless it is set:
/// the stage before it gives the policy. Errors: as load_config, a list that is empty or no list, a
/// stage without `stage`, one that names run.name or run.folder, policy.model where the stage
/// before it gives the policy, sft after the first, learner.steps of 0, `stage` beside `stages`, a
/// setting of a stage that is not there.
base::expected<std::vector<stage_plan>> load_stages(const std::filesystem::path& file,
                                                    const std::vector<std::string>& settings);

/// What is set for one stage: KEY=VALUE is for all, STAGE.KEY=VALUE ("sft.learner.steps=100") for
/// one, without the STAGE here.
std::vector<std::string> settings_of_stage(const std::vector<std::string>& settings,
                                           std::string_view stage);

/// Writes CHAIN/stages. Error: already_exists when it is a chain or a run already.
base::status create_chain(const std::filesystem::path& chain,
                          const std::vector<stage_plan>& stages);

bool is_chain(const std::filesystem::path& folder);

/// What create_chain wrote.
base::expected<std::vector<stage_plan>> read_chain(const std::filesystem::path& chain);

/// Whether each STAGE.KEY=VALUE is of a stage that is there. Error: invalid_argument names those.
base::status check_settings(const std::vector<stage_plan>& stages,
                            const std::vector<std::string>& settings);

/// Settings (without a STAGE) over a stage that has not begun, where all but its name, its folder
/// and the policy that the stage before it gives may change. Leaves it alone where one is refused.
base::status change_plan(stage_plan& stage, const std::vector<std::string>& settings);

/// Replaces what create_chain wrote of one stage.
base::status write_plan(const std::filesystem::path& chain, const stage_plan& stage);

/// Keeps in CHAIN/stages that a stage has begun, so that its run is missed when it is gone.
base::status mark_begun(const std::filesystem::path& chain, const std::string& stage);

/// Whether the run of each stage that has begun is there: one that is marked, or that has a later
/// one after it. Error: not_found names stage and folder, and what to do.
base::status check_begun_stages(const std::filesystem::path& chain,
                                const std::vector<stage_plan>& stages);

/// The run of a chain that was begun last, `folder` itself where it is no chain. Error: not_found
/// for a chain of which no stage has begun.
base::expected<std::filesystem::path> present_stage(const std::filesystem::path& folder);

/// The model in the last checkpoint of a run. Error: not_found.
base::expected<std::filesystem::path> last_model(const std::filesystem::path& run);

}  // namespace quern::actors
