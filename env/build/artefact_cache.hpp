// A folder of compiled artefacts under the hash of what they were made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::env {

/// FOLDER/ab/<32 hex digits>.so. Entries appear whole or not at all; several processes may share
/// the folder. Thread-safe.
class artefact_cache {
 public:
  artefact_cache(std::filesystem::path folder, std::int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  /// The entry's path, and marks it as used now.
  std::optional<std::filesystem::path> find(const base::hash128& key);

  /// Copies the open file `fd` in (at most `limit` bytes; more is an error).
  base::expected<std::filesystem::path> store(const base::hash128& key, int fd, std::int64_t limit);

  /// Removes what was used longest ago until `max_bytes` hold. Called by store() now and then.
  void trim();

 private:
  [[nodiscard]] std::filesystem::path path_of(const base::hash128& key) const;

  std::filesystem::path folder_;
  std::int64_t max_bytes_;
  std::mutex mutex_;
  std::uint64_t stored_ = 0;  // guarded by mutex_
};

}  // namespace quern::env
