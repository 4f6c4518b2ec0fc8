#include "actors/config/policy_folder.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/config/stages.hpp"
#include "storage/checkpoint.hpp"
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

/// A folder that is a checkpoint of a run has every byte that was written; others are not asked.
base::status check_checkpoint(const fs::path& folder) {
  const storage::checkpoint_store store(folder.parent_path());
  for (const std::int64_t version : store.versions())
    if (store.folder_of(version) == folder) QUERN_CHECK(store.verify(version));
  return {};
}

/// Versions of a run that may be read, newest first.
std::vector<std::int64_t> versions_of(const fs::path& run) {
  const storage::checkpoint_store store(run / "checkpoints");
  std::vector<std::int64_t> versions = store.versions();
  if (const auto latest = store.latest()) {
    // What is newer than LATEST may be half of a step that was never recorded.
    std::erase_if(versions, [&](std::int64_t version) { return version > *latest; });
  }
  return versions;
}

base::expected<policy_folder> of_run(const fs::path& run) {
  const storage::checkpoint_store store(run / "checkpoints");
  QUERN_TRY(auto choice, store.choose(versions_of(run)));
  return policy_folder{choice.chosen.folder / "model", std::move(choice.problems)};
}

base::expected<policy_folder> of_chain(const fs::path& chain) {
  QUERN_TRY(const auto stages, read_chain(chain));
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    if (versions_of(chain / stage->name).empty()) continue;
    QUERN_TRY(policy_folder found, of_run(chain / stage->name));
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
  if (const auto config = load_config(storage::run_paths{run}.config(), {})) {
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

base::expected<policy_folder> find_policy(const fs::path& name) {
  std::error_code code;
  fs::path given = fs::weakly_canonical(fs::absolute(name, code), code);
  if (code) return fail(errc::io, "'{}' cannot be looked at: {}", name.string(), code.message());
  if (!given.has_filename()) given = given.parent_path();  // "v00000002/"
  if (is_there(given / "config.json")) {
    if (given.filename() == "model") QUERN_CHECK(check_checkpoint(given.parent_path()));
    return policy_folder{given, {}};
  }
  if (is_there(given / "model/config.json")) {
    QUERN_CHECK(check_checkpoint(given));
    return policy_folder{given / "model", {}};
  }
  if (!versions_of(given).empty()) return of_run(given);
  if (is_chain(given)) return of_chain(given);
  if (is_there(storage::run_paths{given}.meta())) return no_checkpoint_yet(given);
  return no_policy(given);
}

}  // namespace quern::actors
