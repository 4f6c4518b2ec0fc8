#include "actors/config/disk_check.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/config/learner_setup.hpp"
#include "base/text.hpp"
#include "policy/weights/memory_plan.hpp"
#include "storage/checkpoint.hpp"

namespace quern::actors {

std::int64_t checkpoint_bytes(const run_config& config, const policy::model_config& model) {
  const policy::learner_demand demand = learner_demand_of(config);
  const auto of_rank = [&](bool writes_weights) {
    return policy::plan_checkpoint(model, demand, writes_weights).total();
  };
  return of_rank(true) + (config.learner.ranks - 1) * of_rank(false);
}

namespace {

/// Checkpoints that a run will write and keep beside those that are there.
std::int64_t checkpoints_to_come(const run_config& config, const std::filesystem::path& folder) {
  if (is_search(config)) return 0;
  const storage::checkpoint_store store(folder / "checkpoints");
  // A run whose steps are done writes none any more.
  if (store.latest().value_or(0) >= config.learner.steps) return 0;
  const auto there = static_cast<std::int64_t>(store.versions().size());
  const std::int64_t every = config.storage.checkpoint_every_steps,
                     made = (config.learner.steps + every - 1) / every,
                     kept = std::max(config.storage.keep_checkpoints, store.fewest_kept),
                     // What an incarnation began with stays beside them (checkpoint_store::hold).
      held = config.stage == "sft" ? 0 : 1;
  return std::max<std::int64_t>(std::min(made, kept + held + 1) - there, 1);
}

std::string show_bytes(std::int64_t bytes) {
  return base::human_bytes(static_cast<std::uint64_t>(bytes));
}

}  // namespace

std::int64_t checkpoint_bytes_to_come(const run_config& config, const policy::model_config& model,
                                      const std::filesystem::path& folder) {
  return checkpoints_to_come(config, folder) * checkpoint_bytes(config, model);
}

base::status check_disk(const run_config& config, const policy::model_config& model,
                        const std::filesystem::path& folder, std::optional<std::uint64_t> free) {
  if (!free) return {};
  const std::int64_t more = checkpoints_to_come(config, folder);
  const std::int64_t each = checkpoint_bytes(config, model), needed = more * each;
  if (needed <= static_cast<std::int64_t>(*free)) return {};
  return base::fail(
      base::errc::exhausted,
      "run.folder {}: its disk has {} free, the checkpoints need {} ({} more of {} each; "
      "storage.keep_checkpoints is {}, and one is written before an old one goes): free some, put "
      "run.folder on another disk{}, or take a smaller model",
      folder.string(), show_bytes(static_cast<std::int64_t>(*free)), show_bytes(needed), more,
      show_bytes(each), config.storage.keep_checkpoints,
      config.storage.keep_checkpoints > storage::checkpoint_store::fewest_kept
          ? ", lower storage.keep_checkpoints"
          : "");
}

base::status check_temporary_room(const std::filesystem::path& folder,
                                  std::optional<std::uint64_t> free) {
  if (!free || *free >= least_temporary_bytes) return {};
  return base::fail(base::errc::exhausted,
                    "{}, the folder for temporary files, has {} free, {} are needed for compilers "
                    "and candidates: free some, or set TMPDIR to another folder",
                    folder.string(), base::human_bytes(*free),
                    base::human_bytes(least_temporary_bytes));
}

base::status check_disk_of_chain(const std::vector<stage_plan>& stages,
                                 const policy::model_config& model,
                                 const std::filesystem::path& chain,
                                 std::optional<std::uint64_t> free) {
  if (!free) return {};
  std::int64_t needed = 0;
  std::string by_stage;
  for (const stage_plan& stage : stages) {
    const std::int64_t bytes = checkpoint_bytes_to_come(stage.config, model, chain / stage.name);
    needed += bytes;
    if (bytes > 0)
      by_stage +=
          fmt::format("{}{}: {}", by_stage.empty() ? "" : ", ", stage.name, show_bytes(bytes));
  }
  if (needed <= static_cast<std::int64_t>(*free)) return {};
  return base::fail(
      base::errc::exhausted,
      "run.folder {}: its disk has {} free, the checkpoints of all stages need {} ({}): free some, "
      "put run.folder on another disk, lower STAGE.storage.keep_checkpoints (at least {}), or take "
      "a smaller model",
      chain.string(), show_bytes(static_cast<std::int64_t>(*free)), show_bytes(needed), by_stage,
      storage::checkpoint_store::fewest_kept);
}

}  // namespace quern::actors
