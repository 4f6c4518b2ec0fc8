// Right answers of an ablation measured again over another baseline (quern ablate --over).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "tools/cli/ablate.hpp"

namespace quern::tools {

/// The last line of a log, for whoever has to do something about it; empty: it has none.
std::string last_line_of_log(const std::filesystem::path& log);

/// Whether the arms' lane and tasks have `baseline`, by name. Errors: invalid_argument.
base::status check_over(const ablation_plan& plan, const std::string& baseline);

/// Measures the right answers of all complete runs by `quern bench` of this build, each kernel of a
/// task once. Where the lane judges on GPUs, it does so on `gpus`. Verdicts that are there stay.
/// Blocks until its end; from the main thread, whose signals it takes. Returns an exit_code: `done`
/// where each has a verdict, `paused` where somebody asked for an end, else `failed`.
/// OUT/over_BASELINE has tasks, kernels, verdicts and what was said. Errors: invalid_argument where
/// the answers are to other tasks than this build makes; of files.
base::expected<int> measure_over(const ablation_plan& plan, const std::vector<plan_state>& states,
                                 const std::filesystem::path& out, const std::string& baseline,
                                 const std::string& gpus);

/// What measure_over() has found out. Errors: not_found where it has not run; corrupt.
base::expected<measured_again> read_measured_over(const std::filesystem::path& out,
                                                  const std::string& baseline);

}  // namespace quern::tools
