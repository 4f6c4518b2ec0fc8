// Checkpoints of a run: chosen, ordered, made durable.
#include "actors/orchestrator/run_checkpoints.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "actors/decide/step_spans.hpp"
#include "actors/decide/step_watch.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "storage/disk_room.hpp"

namespace quern::actors {
namespace {

namespace fs = std::filesystem;
using base::errc;
using base::fail;

/// Moves what a folder holds into another one.
base::status move_content(const fs::path& from, const fs::path& to) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(from, code)) {
    fs::rename(entry.path(), to / entry.path().filename(), code);
    if (code) return fail(errc::io, "cannot move {}: {}", entry.path().string(), code.message());
  }
  if (code) return fail(errc::io, "cannot read {}: {}", from.string(), code.message());
  return {};
}

}  // namespace

run_checkpoints::run_checkpoints(storage::run_directory& run, std::int64_t keep)
    : run_(run), store_(run.paths().checkpoints(), keep) {}

base::expected<std::optional<run_checkpoints::beginning>> run_checkpoints::newest(
    const storage::ledger& rows) const {
  QUERN_TRY(const auto recorded, rows.checkpoints());
  if (recorded.empty()) return std::nullopt;
  std::vector<std::int64_t> candidates;
  for (const storage::checkpoint_row& row : recorded)
    candidates.push_back(row.version);
  QUERN_TRY(const storage::checkpoint_choice choice, store_.choose(candidates));
  for (const std::string& problem : choice.problems)
    base::log_warn("orchestrator", "{}", problem);
  QUERN_TRY(const storage::ledger_position reached, rows.position());
  const std::string older =
      older_checkpoint_text(candidates.front(), choice.chosen.version, reached.version);
  if (!older.empty()) base::log_warn("orchestrator", "{}", older);
  for (const fs::path& stray : choice.strays)
    base::log_warn("orchestrator", "{}", storage::stray_text(stray));
  beginning found;
  found.version = choice.chosen.version;
  found.model = (choice.chosen.folder / "model").string();
  // Shards in a folder; runs of earlier builds have one file.
  found.optimizer = (choice.chosen.folder / "optimizer").string();
  std::error_code code;
  if (!fs::is_directory(found.optimizer, code)) found.optimizer += ".safetensors";
  QUERN_TRY(const std::string text, base::read_file(choice.chosen.folder / "state.json"));
  QUERN_TRY(const base::json state, base::parse_json(text));
  found.reward_statistics = state.value("reward_statistics", base::json());
  return found;
}

base::status run_checkpoints::begin(weights_version version) {
  QUERN_TRY(const auto aside, store_.set_aside_above(version));
  for (const storage::set_aside_checkpoint& moved : aside)
    base::log_warn("orchestrator", "{}", storage::set_aside_text(moved, version));
  std::error_code ignored;
  fs::remove_all(run_.paths().root / "staging", ignored);
  // Generators of this incarnation start from it, also when one dies many checkpoints later.
  store_.hold(version);
  saving_.reset();
  state_ = {};
  last_ = version;
  return {};
}

save_checkpoint run_checkpoints::order(incarnation_id incarnation, weights_version version,
                                       base::json reward_statistics) {
  const std::string warning = storage::warning_of_room(
      run_.paths().root, bytes_at(store_.folder_of(last_)), storage::free_bytes(run_.paths().root));
  if (!warning.empty()) base::log_warn("checkpoint", "{}", warning);
  saving_ = version;
  state_ = {{"quern_state", 2},
            {"version", version},
            {"incarnation", incarnation},
            {"reward_statistics", std::move(reward_statistics)}};
  // Of this incarnation: a rank of the one before may still be writing.
  const fs::path folder =
      run_.paths().root / "staging" / fmt::format("{}-{}", incarnation, version);
  return {version, folder.string(), incarnation};
}

base::status run_checkpoints::saved(const checkpoint_saved& answer, storage::ledger& rows) {
  if (!saving_ || answer.version != *saving_) return {};
  if (!answer.problem.empty())
    return fail(errc::io, "the learner could not write checkpoint v{}: {}", answer.version,
                answer.problem);
  const std::string state = base::dump_pretty(state_);
  const auto fill = [&](const fs::path& folder) -> base::status {
    QUERN_CHECK(move_content(answer.folder, folder));
    return base::write_file_atomic(folder / "state.json", state);
  };
  QUERN_TRY(const storage::checkpoint written, store_.write(answer.version, fill));
  std::error_code ignored;
  fs::remove_all(answer.folder, ignored);
  storage::checkpoint_row row;
  row.version = written.version;
  row.path = fs::relative(written.folder, run_.paths().root).string();
  row.hash = written.hash;
  QUERN_CHECK(rows.record_checkpoint(row));
  QUERN_CHECK(store_.publish(written.version));
  last_ = answer.version;
  saving_.reset();
  return {};
}

}  // namespace quern::actors
