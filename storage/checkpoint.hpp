// Checkpoints: folders that are all there or not at all. Storage knows no weights: who has them
// writes the files, storage makes them durable, signs them and names them.
//
//   checkpoints/v00000012/{whatever the callback wrote, MANIFEST.json}   checkpoints/LATEST
//
// The order that a crash may interrupt anywhere: write under a temporary name, sync every file,
// MANIFEST last, rename (`write`); record in the ledger (ledger::record_checkpoint); point LATEST
// at it and delete what is older than the last few (`publish`). What a run does not go on from is
// moved out of its way (`set_aside_above`), be it unknown to the ledger or damaged: the ledger may
// be an old copy, and the weights in it the only ones.
//
//   checkpoints/set_aside/v00000016/{as it was}
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "storage/checkpoint_check.hpp"

namespace quern::storage {

struct checkpoint {
  std::int64_t version = 0;
  std::filesystem::path folder;
  base::hash128 hash;  ///< of MANIFEST.json, which has the hash of every file
};

/// What a search for a usable checkpoint found.
struct checkpoint_choice {
  checkpoint chosen;
  /// Of newer ones that were passed over, each naming the file; without those that were deleted
  /// since newer ones are kept.
  std::vector<std::string> problems;
  std::vector<std::filesystem::path> strays;  ///< in the chosen one, beside its files
};

/// One thread at a time, under the run's lock; reading needs no lock.
class checkpoint_store {
 public:
  /// The last one, and one to fall back to when that cannot be read.
  static constexpr std::int64_t fewest_kept = 2;

  /// `kept`: how many `publish` leaves; fewer than two count as two.
  explicit checkpoint_store(std::filesystem::path folder, std::int64_t kept = fewest_kept)
      : folder_(std::move(folder)), kept_(std::max(kept, fewest_kept)) {}

  /// `fill` writes files and folders below the path that it is given. On success the checkpoint is
  /// durable under its final name. A version that is there already is `already_exists`.
  base::expected<checkpoint> write(
      std::int64_t version, const std::function<base::status(const std::filesystem::path&)>& fill);

  /// `publish` never deletes this one, until another is held: what a process that dies late in an
  /// incarnation starts from again.
  void hold(std::int64_t version) { held_ = version; }

  /// Points LATEST at `version` and deletes all but the newest `kept` up to it, of which it is
  /// one, and the held one.
  base::status publish(std::int64_t version);

  /// Reads and checks every byte of one checkpoint: the errors of `check_checkpoint`, and `corrupt`
  /// naming the files that are damaged.
  [[nodiscard]] base::expected<checkpoint> verify(std::int64_t version) const;

  /// The newest of `candidates` (descending versions, from the ledger) whose every byte below
  /// `part` (empty: every byte) is as it was written. `not_found` when none is, with what to do and
  /// the reasons. `publish` leaves the newest `kept` of them and the held one: others that are not
  /// there are no problem. One that the system cannot read, or of another build's format, may be
  /// whole: it is not passed over, but an error, with what to do.
  [[nodiscard]] base::expected<checkpoint_choice> choose(
      const std::vector<std::int64_t>& candidates, std::string_view part = {}) const;

  /// Versions that are there, newest first, unchecked. Error: the folder cannot be listed.
  [[nodiscard]] base::expected<std::vector<std::int64_t>> list() const;
  /// The same where nothing is decided by it: none when the folder cannot be listed.
  [[nodiscard]] std::vector<std::int64_t> versions() const {
    return list().value_or(std::vector<std::int64_t>{});
  }

  /// Candidates for `choose` where there is no ledger: versions that are there, and that of LATEST
  /// where it is newer than all of them, since its folder is gone then. Error: as `list`.
  [[nodiscard]] base::expected<std::vector<std::int64_t>> known() const;

  /// The version that LATEST names: for readers without the ledger.
  [[nodiscard]] base::expected<std::int64_t> latest() const;

  /// Moves versions above `version` to checkpoints/set_aside, whatever is left of them, and says
  /// what that is. Deletes the drafts that writers left which died, and nothing else. One that the
  /// system cannot read is an error, with what to do: nothing is changed then.
  base::expected<std::vector<set_aside_checkpoint>> set_aside_above(std::int64_t version);

  [[nodiscard]] std::filesystem::path folder_of(std::int64_t version) const;

 private:
  base::status point_latest_at(std::int64_t version);
  /// `folder` is where it still lies.
  [[nodiscard]] base::expected<set_aside_checkpoint> what_is_left(std::int64_t version) const;
  /// Moves it; `folder` is where it lies then.
  base::status set_aside(std::filesystem::path& folder);
  void delete_drafts();
  std::filesystem::path folder_;
  std::int64_t kept_;
  std::int64_t held_ = -1;
};

}  // namespace quern::storage
