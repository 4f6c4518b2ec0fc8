// Whether the disk has room for all runs of an ablation: each by itself may have it, and all not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "policy/text/model_config.hpp"
#include "tools/ablate/plan.hpp"

namespace quern::tools {

/// Whether `free` bytes of the disk of `out` hold the checkpoints of the runs that are not
/// complete. None: nobody knows, which is no error. `model`: the policy of all arms. Error:
/// exhausted, with bytes, folder and what to do.
base::status check_disk_of_runs(const ablation_plan& plan, const std::vector<plan_state>& states,
                                const policy::model_config& model, const std::filesystem::path& out,
                                std::optional<std::uint64_t> free);

}  // namespace quern::tools
