#include "actors/config/disk_check.hpp"

#include <algorithm>

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

base::status check_disk(const run_config& config, const policy::model_config& model,
                        const std::filesystem::path& folder, std::optional<std::uint64_t> free) {
  if (!free) return {};
  const storage::checkpoint_store store(folder / "checkpoints");
  const auto there = static_cast<std::int64_t>(store.versions().size());
  const std::int64_t every = config.storage.checkpoint_every_steps,
                     made = (config.learner.steps + every - 1) / every,
                     kept = std::max(config.storage.keep_checkpoints, store.fewest_kept);
  // A run whose steps are done writes none any more.
  if (store.latest().value_or(0) >= config.learner.steps) return {};
  const std::int64_t more = std::max<std::int64_t>(std::min(made, kept + 1) - there, 1);
  const std::int64_t each = checkpoint_bytes(config, model), needed = more * each;
  if (needed <= static_cast<std::int64_t>(*free)) return {};
  const auto show = [](std::int64_t bytes) {
    return base::human_bytes(static_cast<std::uint64_t>(bytes));
  };
  return base::fail(
      base::errc::exhausted,
      "run.folder {}: its disk has {} free, the checkpoints need {} ({} more of {} each; "
      "storage.keep_checkpoints is {}, and one is written before an old one goes): free some, put "
      "run.folder on another disk{}, or take a smaller model",
      folder.string(), show(static_cast<std::int64_t>(*free)), show(needed), more, show(each),
      config.storage.keep_checkpoints,
      kept > storage::checkpoint_store::fewest_kept ? ", lower storage.keep_checkpoints" : "");
}

}  // namespace quern::actors
