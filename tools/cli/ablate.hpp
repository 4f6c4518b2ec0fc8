// What `quern ablate` does with its plan: runs begun and gone on with, and results read.
#pragma once

#include <filesystem>
#include <vector>

#include "actors/orchestrator/task_book.hpp"
#include "base/status.hpp"
#include "tools/ablate/places.hpp"
#include "tools/ablate/plan.hpp"
#include "tools/ablate/table.hpp"

namespace quern::tools {

/// What is on the disk of each run of the plan. Errors: of check_same_run and runs_left; a
/// configuration that cannot be read.
base::expected<std::vector<plan_state>> look_at_runs(const ablation_plan& plan,
                                                     const std::filesystem::path& out);

/// Checks all that can be known before a run begins, for the first run of each arm and shared stage
/// that has not begun: other seeds differ in nothing that is checked. Where runs are left, those
/// that are there must have the tasks that this build draws, and must have begun with the weights
/// that are there now. The disk needs room for all that are left. Errors: as check_disk_of_runs,
/// preflight(), actors::check_tasks_begun_with, with the run, and check_weights_to_come;
/// invalid_argument where no task is held out.
base::status check_runs(const ablation_plan& plan, const std::vector<plan_state>& states,
                        const std::filesystem::path& out);

/// Makes the runs that are left, one after the other; how the last one ended, as an exit_code.
/// `paused` where somebody asked for an end before all were complete, or after the last one where
/// `more_follows`.
int make_runs(const ablation_plan& plan, const std::vector<plan_state>& states,
              const std::filesystem::path& out, bool more_follows);

/// The same side by side, each at a place of its own, by `quern train` and `quern resume` of this
/// build; what they say is in OUT/ARM/seed-N.log. Where one fails, those that do not need it are
/// made all the same, and the code is `failed`.
int make_runs_side_by_side(const ablation_plan& plan, const std::vector<plan_state>& states,
                           const std::filesystem::path& out,
                           const std::vector<ablation_place>& places, bool more_follows);

/// What is on the disk of one run of the plan. Errors: of check_same_run; a configuration that
/// cannot be read.
base::expected<plan_state> state_of_run(const planned_run& run,
                                        const std::filesystem::path& folder);

/// The configuration of a run that is to begin, with the weights of the run before it; writes the
/// suite that arm evolve searches. Errors: of the run before it; of files.
base::expected<actors::run_config> beginning_of_run(const ablation_plan& plan, std::size_t number,
                                                    const std::filesystem::path& out);

/// The evaluation_set.json of a run. Errors: of the file; corrupt.
base::expected<base::json> evaluation_set_of(const std::filesystem::path& folder);

/// Runs of arms in `out` that `plan` does not have, by their names in it: a table of the plan does
/// not have them either.
std::vector<std::string> runs_beside(const ablation_plan& plan, const std::filesystem::path& out);

/// The arms of a plan, each with the seeds whose runs are complete; an arm without any is left out,
/// and so is `evolve` where answers were measured again. Errors: of their files.
base::expected<std::vector<ablation_arm>> read_arms(const ablation_plan& plan,
                                                    const std::vector<plan_state>& states,
                                                    const std::filesystem::path& out,
                                                    const measured_again& again = {});

/// Writes the held-out ones of `tasks` as a suite that a search takes; nothing where it is there.
base::status write_held_out_suite(const actors::task_book& tasks,
                                  const std::filesystem::path& folder);

/// The folder of the tasks that arm evolve searches.
std::filesystem::path held_out_suite_of(const std::filesystem::path& out);

}  // namespace quern::tools
