// Which runs an ablation is made of: a run for each arm and seed, and before them the early stages
// that arms of a seed share. A plain plan; nothing is read or started here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/config/stages.hpp"
#include "base/status.hpp"

namespace quern::tools {

/// The arms by the names of `--arms`, in the order of CUDA-L1's Table 5.
inline constexpr std::string_view arm_names[] = {"vanilla",
                                                 "evolve",
                                                 "stage1",
                                                 "stage1+2",
                                                 "+grpo",
                                                 "+contrastive:random",
                                                 "+contrastive:island",
                                                 "+contrastive:bucket"};

/// "vanilla,+grpo" to arms, in the order that is given. Errors: invalid_argument for an arm that is
/// not known or stands twice, and for none.
base::expected<std::vector<std::string>> parse_arms(std::string_view list);

/// "1,2,3" to seeds, in the order that is given. Errors: invalid_argument for what is no whole
/// number in 0 .. 9e15, a seed that stands twice, none, and more than 100.
base::expected<std::vector<std::int64_t>> parse_seeds(std::string_view list);

/// The folder of an arm: its name without '+' and ':', which other programs give a meaning.
std::string arm_folder(std::string_view arm);

struct planned_run {
  std::string name;  ///< its folder below the ablation's: "grpo/seed-1", "shared/seed-1/sft"
  std::string arm;   ///< empty: a stage that arms share
  std::int64_t seed = 0;
  actors::run_config config;  ///< policy.model is empty where `begins_with` gives the weights
  std::optional<std::size_t> begins_with;  ///< number of the run whose last weights it begins with
  /// Evaluations that the plan gives it. An arm that does not learn takes one step that changes
  /// nothing, and is given none.
  std::int64_t evaluations = 0;
};

struct ablation_plan {
  std::vector<std::string> arms;
  std::vector<std::int64_t> seeds;
  std::int64_t budget = 0;        ///< evaluations of an arm's own
  std::string reward;             ///< by which all arms are compared, whatever they learnt by
  std::vector<planned_run> runs;  ///< each after those that it begins with
  /// The number of the run of an arm and a seed; both are of the plan.
  [[nodiscard]] std::size_t run_of(std::string_view arm, std::int64_t seed) const;
  /// The stages before a run, the first one first.
  [[nodiscard]] std::vector<std::size_t> before(std::size_t run) const;
};

/// What is on the disk of a run.
enum class plan_state { missing, begun, complete };

/// The numbers of the runs that are not complete, in the order in which they are made. `states`:
/// one for each run. Error: not_found where a run has begun, but one that it begins with is not
/// complete.
base::expected<std::vector<std::size_t>> runs_left(const ablation_plan& plan,
                                                   const std::vector<plan_state>& states);

/// Whether the run that is there is the planned one: its folder, its log level and where it is made
/// (is_placing) may differ, and its policy.model where an earlier run gives it. Error:
/// invalid_argument names the keys, and what to do.
base::status check_same_run(const planned_run& run, const actors::run_config& there);

struct ablation_folders {
  std::string held_out_suite;  ///< will hold the held-out tasks, which arm evolve searches
  /// The policy of arm vanilla; policy.model is of stage 1 then. Empty: vanilla is policy.model.
  std::string vanilla = {};
  /// The policy of stage 1, which takes the place of stage sft or of policy.model. Empty: none.
  std::string stage1 = {};
};

/// `stages`: of the configuration; its stage contrastive says tasks, environment and evaluation set
/// of all arms. `budget` 0: that of its stage contrastive. Errors: invalid_argument names what the
/// configuration lacks for an arm, or the budget that is no whole number of steps, and what to do.
base::expected<ablation_plan> plan_ablation(const std::vector<actors::stage_plan>& stages,
                                            const std::vector<std::string>& arms,
                                            const std::vector<std::int64_t>& seeds,
                                            std::int64_t budget, const ablation_folders& folders);

}  // namespace quern::tools
