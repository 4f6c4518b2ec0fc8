// What is left of a checkpoint: its files, compared with its MANIFEST.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "storage/manifest.hpp"

namespace quern::storage {

/// The folder of a checkpoint that is a policy by itself.
inline constexpr std::string_view model_part = "model";

/// The version in a folder's name: "v00000012", and, where a checkpoint of that name was set aside
/// before, "v00000012-2". None: no checkpoint has that name.
std::optional<std::int64_t> version_in_name(std::string_view name);

/// What a check found. Only files are told of that lie below the part that was asked for.
struct checkpoint_check {
  std::int64_t version = 0;
  base::hash128 hash;                         ///< of MANIFEST.json
  std::optional<manifest> files;              ///< none: MANIFEST.json itself is damaged
  std::vector<damaged_file> damaged;          ///< without a manifest that file alone
  std::vector<std::filesystem::path> strays;  ///< not in the manifest: harmless, and not read

  [[nodiscard]] bool whole() const { return damaged.empty(); }
  /// Every file below `part` is known to be as it was written, and there is one.
  [[nodiscard]] bool holds(std::string_view part) const;
  /// The first few damaged files and the number of the others.
  [[nodiscard]] std::string damage() const;
};

/// Reads every byte below `part` (empty: of the whole checkpoint). Errors: `not_found`, there is no
/// such folder; `version`, another build's format; whatever the system refused (`io`,
/// `exhausted`), naming the file: then nothing is known of what is left.
base::expected<checkpoint_check> check_checkpoint(const std::filesystem::path& folder,
                                                  std::string_view part = {});

/// Why no checkpoint of a run can be used.
struct unusable_checkpoints {
  /// Of those that are damaged, or missing though they should be there; the newest first.
  std::vector<std::string> problems;
  std::int64_t deleted = 0;  ///< older ones that are gone since only the newest are kept
  std::int64_t kept = 0;     ///< how many of the newest are
};

/// For a person: what to do, then the first few problems and the number of the others. `folder`:
/// that of the checkpoints.
std::string unusable_text(const std::filesystem::path& folder, const unusable_checkpoints& none);

/// For a person: a file that is there beside those of the checkpoint.
std::string stray_text(const std::filesystem::path& stray);

/// A checkpoint that a run does not go on from, moved out of its way.
struct set_aside_checkpoint {
  enum class model_is { whole, damaged, unknown };
  std::filesystem::path folder;      ///< where it is now
  std::string damage;                ///< what is wrong with it; empty: it is whole
  model_is model = model_is::whole;  ///< whether the policy in it can be used
};

/// For a person: why it was moved and where to, what can be done with it, and that it takes room.
/// `version`: the one that the run goes on from.
std::string set_aside_text(const set_aside_checkpoint& moved, std::int64_t version);

}  // namespace quern::storage
