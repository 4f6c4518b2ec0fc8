// Checkpoints: folders that are all there or not at all. Storage knows no weights: who has them
// writes the files, storage makes them durable, signs them and names them.
//
//   checkpoints/v00000012/{whatever the callback wrote, MANIFEST.json}   checkpoints/LATEST
//
// The order that a crash may interrupt anywhere: write under a temporary name, sync every file,
// MANIFEST last, rename (`write`); record in the ledger (ledger::record_checkpoint); point LATEST
// at it and delete what is older than the last few (`publish`). What the ledger does not know is
// not part of the run: `discard_above` takes it away when the run goes on. A checkpoint that is
// whole is not deleted then, but moved: the ledger may be an old copy, and the weights the only
// ones.
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

namespace quern::storage {

struct checkpoint {
  std::int64_t version = 0;
  std::filesystem::path folder;
  base::hash128 hash;  ///< of MANIFEST.json, which has the hash of every file
};

/// What a search for a usable checkpoint found.
struct checkpoint_choice {
  checkpoint chosen;
  std::vector<std::string> problems;  ///< of newer ones that were passed over, each naming the file
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
  /// epoch starts from again.
  void hold(std::int64_t version) { held_ = version; }

  /// Points LATEST at `version` and deletes all but the newest `kept` up to it, of which it is
  /// one, and the held one.
  base::status publish(std::int64_t version);

  /// Reads and checks every byte of one checkpoint: `not_found`, or `corrupt` naming the file.
  [[nodiscard]] base::expected<checkpoint> verify(std::int64_t version) const;

  /// The newest of `candidates` (descending versions, from the ledger) that passes `verify`.
  /// `not_found` when none does, with all the reasons.
  [[nodiscard]] base::expected<checkpoint_choice> choose(
      const std::vector<std::int64_t>& candidates) const;

  /// Versions that are there, newest first, unchecked.
  [[nodiscard]] std::vector<std::int64_t> versions() const;

  /// The version that LATEST names: for readers without the ledger.
  [[nodiscard]] base::expected<std::int64_t> latest() const;

  /// Takes versions above `version` away: those that pass `verify` go to checkpoints/set_aside, the
  /// others are deleted, as is what writers that died left behind. Returns the folders that were
  /// moved, where they are now.
  base::expected<std::vector<std::filesystem::path>> discard_above(std::int64_t version);

  [[nodiscard]] std::filesystem::path folder_of(std::int64_t version) const;

 private:
  base::status point_latest_at(std::int64_t version);
  base::expected<std::filesystem::path> set_aside(std::int64_t version);
  std::filesystem::path folder_;
  std::int64_t kept_;
  std::int64_t held_ = -1;
};

}  // namespace quern::storage
