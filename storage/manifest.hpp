// MANIFEST.json of a checkpoint: size and hash of every file, so that a reader knows what it has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::storage {

struct manifest_file {
  std::string path;  ///< relative, '/' between parts
  std::uint64_t size = 0;
  base::hash128 hash;
};

struct manifest {
  std::int64_t version = 0;          ///< of the weights
  std::vector<manifest_file> files;  ///< by path
};

std::string to_json(const manifest& value);

/// Strict: an unknown format version, a path that leaves the folder, an absolute or repeated path
/// are errors.
base::expected<manifest> parse_manifest(std::string_view text);

/// Hash of a file's bytes, read in pieces.
base::expected<base::hash128> hash_file(const std::filesystem::path& path);

/// Every regular file below `folder`, synced, with size and hash. Links and special files are
/// refused.
base::expected<std::vector<manifest_file>> seal_files(const std::filesystem::path& folder);

/// Every file that the manifest names is there with its size and hash, and no other file is.
base::status check_files(const std::filesystem::path& folder, const manifest& expected);

}  // namespace quern::storage
