// Whether the runs of an ablation began with the same weights: arms are compared as if they did,
// and a folder of a policy may have got others between two calls of the command.
#pragma once

#include <filesystem>
#include <vector>

#include "base/status.hpp"
#include "tools/ablate/plan.hpp"

namespace quern::tools {

/// That the runs which are there began with what those which are to begin would begin with, where
/// both name one folder. Reads that folder. Errors: invalid_argument, naming run, folder and files;
/// a file that cannot be read.
base::status check_weights_to_come(const ablation_plan& plan, const std::vector<plan_state>& states,
                                   const std::filesystem::path& out);

/// That the complete runs which name one folder began with the same weights, by what they noted of
/// them; the folder may be gone. Runs of a build that noted nothing are left out. Errors:
/// invalid_argument, naming two runs and the files.
base::status check_weights_of_table(const ablation_plan& plan,
                                    const std::vector<plan_state>& states,
                                    const std::filesystem::path& out);

}  // namespace quern::tools
