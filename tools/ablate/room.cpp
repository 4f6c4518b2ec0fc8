#include "tools/ablate/room.hpp"

#include "actors/config/disk_check.hpp"
#include "base/text.hpp"

namespace quern::tools {

base::status check_disk_of_runs(const ablation_plan& plan, const std::vector<plan_state>& states,
                                const policy::model_config& model, const std::filesystem::path& out,
                                std::optional<std::uint64_t> free) {
  std::uint64_t needed = 0;
  std::size_t left = 0;
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const planned_run& run = plan.runs[k];
    if (states[k] == plan_state::complete) continue;
    ++left;
    needed += static_cast<std::uint64_t>(
        actors::checkpoint_bytes_to_come(run.config, model, out / run.name));
  }
  if (!free || needed <= *free) return {};
  return base::fail(base::errc::exhausted,
                    "--out {}: its disk has {} free, the checkpoints of the {} runs that are left "
                    "need {}: free some, name an --out on another disk, lower "
                    "storage.keep_checkpoints, or make fewer arms or seeds at a time",
                    out.string(), base::human_bytes(*free), left, base::human_bytes(needed));
}

}  // namespace quern::tools
