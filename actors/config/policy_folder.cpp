#include "actors/config/policy_folder.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/config/stages.hpp"
#include "storage/checkpoint.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> notes_on(const std::vector<fs::path>& strays) {
  std::vector<std::string> notes;
  for (const fs::path& stray : strays)
    notes.push_back(storage::stray_text(stray));
  return notes;
}

/// The model of a folder. Where that is a checkpoint of a run, be it set aside, every byte of the
/// model is as it was written; other folders have nothing to be compared with.
base::expected<policy_folder> model_in(const fs::path& folder) {
  policy_folder found{folder / storage::model_part, {}};
  if (!storage::version_in_name(folder.filename().string())) return found;
  QUERN_TRY(const auto check, storage::check_checkpoint(folder, storage::model_part));
  if (!check.whole()) return fail(errc::corrupt, "{}", check.damage());
  found.notes = notes_on(check.strays);
  return found;
}

/// The newest checkpoint that the ledger of a run has; none: it has no ledger, or none yet.
base::expected<std::optional<std::int64_t>> newest_recorded(const fs::path& run) {
  const fs::path file = storage::run_paths{run}.database();
  if (!is_there(file)) return std::optional<std::int64_t>();
  QUERN_TRY(const auto db, storage::database::open(file, storage::database::access::read));
  QUERN_TRY(const auto ledger, storage::ledger::open(*db));
  QUERN_TRY(const auto position, ledger->position());
  return position.checkpoint ? std::optional(position.checkpoint->version) : std::nullopt;
}

struct known_versions {
  std::vector<std::int64_t> newest_first;  ///< that may be read; the first may be gone
  std::vector<std::string> notes;
};

known_versions versions_of(const fs::path& run) {
  known_versions known;
  const storage::checkpoint_store store(run / "checkpoints");
  std::optional<std::int64_t> newest;
  if (const auto latest = store.latest()) newest = *latest;
  if (const auto recorded = newest_recorded(run); !recorded) {
    known.notes.push_back(fmt::format("the ledger of {} does not tell its newest checkpoint: {}",
                                      run.string(), recorded.error().message));
  } else if (*recorded) {
    newest = std::max(newest.value_or(0), **recorded);
  }
  if (newest) known.newest_first.push_back(*newest);
  // What is newer may be half of a step that was never recorded.
  for (const std::int64_t version : store.versions())
    if (!newest || version < *newest) known.newest_first.push_back(version);
  return known;
}

base::expected<policy_folder> of_run(const fs::path& run, known_versions known,
                                     older_checkpoint older) {
  const storage::checkpoint_store store(run / "checkpoints");
  QUERN_TRY(auto choice, store.choose(known.newest_first, storage::model_part));
  const std::int64_t newest = known.newest_first.front(), chosen = choice.chosen.version;
  if (chosen != newest && older == older_checkpoint::refuse)
    return fail(errc::corrupt,
                "the newest checkpoint of {}, version {}, cannot be used ({}): put it back from a "
                "copy, or take version {} with --older",
                run.string(), newest, choice.problems.front(), chosen);
  std::vector<std::string> notes = std::move(known.notes);
  for (std::string& problem : choice.problems)
    notes.push_back(std::move(problem));
  for (std::string& note : notes_on(choice.strays))
    notes.push_back(std::move(note));
  if (chosen != newest)
    notes.push_back(fmt::format("this is the policy of version {}, not of version {}, the newest",
                                chosen, newest));
  return policy_folder{choice.chosen.folder / "model", std::move(notes)};
}

base::expected<policy_folder> of_chain(const fs::path& chain, older_checkpoint older) {
  QUERN_TRY(const auto stages, read_chain(chain));
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    known_versions known = versions_of(chain / stage->name);
    if (known.newest_first.empty()) continue;
    QUERN_TRY(policy_folder found, of_run(chain / stage->name, std::move(known), older));
    found.notes.push_back(fmt::format("{} is a chain of {} stages: this is the policy of {}, in {}",
                                      chain.string(), stages.size(), stage->name,
                                      found.model.string()));
    return found;
  }
  return fail(errc::not_found,
              "{} is a chain of {} stages, none of which has a checkpoint yet: go on with quern "
              "resume {}, or name a Hugging Face folder",
              chain.string(), stages.size(), chain.string());
}

/// A run before its first checkpoint, with the policy that it begins with.
tl::unexpected<base::error> no_checkpoint_yet(const fs::path& run) {
  std::string every, begins;
  if (const auto config = load_run_config(storage::run_paths{run}.config(), {})) {
    every = fmt::format(" (storage.checkpoint_every_steps is {})",
                        config->storage.checkpoint_every_steps);
    if (config->stage != "sft")
      begins = fmt::format(", or name the policy that it begins with: {}", config->policy.model);
  }
  return fail(errc::not_found,
              "{} is a run, but has no checkpoint yet{}: wait for one, or go on with quern resume "
              "{}{}",
              run.string(), every, run.string(), begins);
}

/// The first names in a folder, so that a person sees where they are.
std::string names_in(const fs::path& folder) {
  constexpr std::size_t most = 8;
  std::vector<std::string> names;
  std::error_code code;
  for (auto at = fs::directory_iterator(folder, code); !code && at != fs::directory_iterator();
       at.increment(code))
    names.push_back(at->path().filename().string());
  if (names.empty()) return "nothing";
  std::sort(names.begin(), names.end());
  const std::size_t shown = std::min(names.size(), most);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + std::ptrdiff_t(shown), ", "),
                     shown < names.size() ? ", ..." : "");
}

tl::unexpected<base::error> no_policy(const fs::path& folder) {
  constexpr auto advice =
      "name a Hugging Face folder (with config.json), a checkpoint, or the folder of a run or of a "
      "chain";
  std::error_code ignored;
  if (!is_there(folder))
    return fail(errc::not_found, "{} is not there: {}", folder.string(), advice);
  if (!fs::is_directory(folder, ignored))
    return fail(errc::not_found, "{} is a file: {}", folder.string(), advice);
  return fail(errc::not_found, "{} holds no policy (in it: {}): {}", folder.string(),
              names_in(folder), advice);
}

}  // namespace

base::expected<policy_folder> find_policy(const fs::path& name, older_checkpoint older) {
  std::error_code code;
  fs::path given = fs::weakly_canonical(fs::absolute(name, code), code);
  if (code) return fail(errc::io, "'{}' cannot be looked at: {}", name.string(), code.message());
  if (!given.has_filename()) given = given.parent_path();  // "v00000002/"
  if (is_there(given / "config.json"))
    return given.filename() == storage::model_part ? model_in(given.parent_path())
                                                   : policy_folder{given, {}};
  if (is_there(given / "model/config.json")) return model_in(given);
  if (known_versions known = versions_of(given); !known.newest_first.empty())
    return of_run(given, std::move(known), older);
  if (is_chain(given)) return of_chain(given, older);
  if (is_there(storage::run_paths{given}.meta())) return no_checkpoint_yet(given);
  return no_policy(given);
}

model_origin origin_of(const fs::path& model) {
  model_origin origin;
  const fs::path checkpoint = model.parent_path();
  origin.version = storage::version_in_name(checkpoint.filename().string());
  if (!origin.version) return origin;
  // RUN/checkpoints/VERSION/model, or below RUN/checkpoints/set_aside.
  fs::path above = checkpoint.parent_path();
  if (above.filename() == "set_aside") above = above.parent_path();
  if (is_there(storage::run_paths{above.parent_path()}.meta())) origin.run = above.parent_path();
  return origin;
}

}  // namespace quern::actors
