#include "tools/cli/ablate_weights.hpp"

#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/config/begun_with.hpp"
#include "actors/orchestrator/prompt_length.hpp"
#include "policy/weights/model_digest.hpp"
#include "storage/run_directory.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using model_files = std::vector<policy::model_file>;

/// The folder that a run begins with; empty: an earlier run, or nothing, gives its weights.
std::string folder_of(const planned_run& run) {
  return run.begins_with || run.config.stage == "sft" ? std::string() : run.config.policy.model;
}

/// What the run noted of the files that it began with; none: its build noted nothing.
base::expected<std::optional<model_files>> files_begun_with(const planned_run& run,
                                                            const fs::path& out) {
  QUERN_TRY(const base::json meta, storage::read_meta({out / run.name}));
  auto begun = actors::inputs_in(meta);
  if (!begun) return base::in_context(run.name, begun.error());
  if (!*begun) return std::optional<model_files>();
  return (*begun)->model;
}

/// "model.safetensors", the files that are not the same; empty: all are.
std::string other_files(const model_files& one, const model_files& other) {
  actors::run_inputs first, second;
  first.model = one;
  second.model = other;
  const actors::changed_names changed = actors::compare(first, second).model;
  std::vector<std::string> names = changed.differ;
  names.insert(names.end(), changed.missing.begin(), changed.missing.end());
  names.insert(names.end(), changed.added.begin(), changed.added.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

base::status check_weights_to_come(const ablation_plan& plan, const std::vector<plan_state>& states,
                                   const fs::path& out) {
  std::map<std::string, model_files> to_come;
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const std::string folder = folder_of(plan.runs[k]);
    if (states[k] != plan_state::missing || folder.empty() || to_come.contains(folder)) continue;
    QUERN_TRY(const fs::path model, actors::model_folder(plan.runs[k].config));
    QUERN_TRY(to_come[folder], policy::digest_model(model));
  }
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const planned_run& run = plan.runs[k];
    const auto now = to_come.find(folder_of(run));
    if (states[k] == plan_state::missing || now == to_come.end()) continue;
    QUERN_TRY(const auto begun, files_begun_with(run, out));
    if (!begun) continue;
    if (const std::string names = other_files(*begun, now->second); !names.empty())
      return base::fail(base::errc::invalid_argument,
                        "{} began with other weights than those that are in {} now ({}), and the "
                        "runs that are left would begin with these: put the files back; for other "
                        "weights name another --out",
                        run.name, now->first, names);
  }
  return {};
}

base::status check_weights_of_table(const ablation_plan& plan,
                                    const std::vector<plan_state>& states, const fs::path& out) {
  std::map<std::string, std::pair<std::string, model_files>> first;  // by folder: run and files
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const planned_run& run = plan.runs[k];
    const std::string folder = folder_of(run);
    if (states[k] != plan_state::complete || folder.empty()) continue;
    QUERN_TRY(auto begun, files_begun_with(run, out));
    if (!begun) continue;
    const auto [known, is_new] = first.try_emplace(folder, run.name, *begun);
    if (is_new) continue;
    if (const std::string names = other_files(known->second.second, *begun); !names.empty())
      return base::fail(
          base::errc::invalid_argument,
          "{} and {} both began with {}, which had other weights for one than for "
          "the other ({}): a table of both would compare these; ask for arms and "
          "seeds that began alike, or remove the runs that did not and make them anew",
          known->second.first, run.name, folder, names);
  }
  return {};
}

}  // namespace quern::tools
