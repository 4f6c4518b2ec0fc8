// Right answers of an ablation measured again over another baseline (quern ablate --over).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "tools/cli/ablate.hpp"

namespace quern::tools {

/// Whether the arms' lane and tasks have `baseline`, by name. Errors: invalid_argument, with what
/// to say.
base::status check_over(const ablation_plan& plan, const std::string& baseline);

/// Measures the right answers of all complete runs by `quern bench` of this build, each kernel of a
/// task once, on `gpus` where the lane judges on some; verdicts that are there stay. An exit_code:
/// `done` where each has a verdict, `paused` where somebody asked for an end. Blocks until then.
/// OUT/over_BASELINE has tasks, kernels, verdicts and what was said. Errors: invalid_argument where
/// the answers are to other tasks than this build makes; of files.
base::expected<int> measure_over(const ablation_plan& plan, const std::vector<plan_state>& states,
                                 const std::filesystem::path& out, const std::string& baseline,
                                 const std::string& gpus);

/// What measure_over() has found out. Errors: not_found where it has not run; corrupt.
base::expected<measured_again> read_measured_over(const std::filesystem::path& out,
                                                  const std::string& baseline);

}  // namespace quern::tools
