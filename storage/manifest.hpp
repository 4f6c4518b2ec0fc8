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

/// A file that is not what the manifest says.
struct damaged_file {
  std::string path;     ///< as in the manifest
  std::string problem;  ///< names the file and what is wrong: it is missing, has another size, ...
};

/// What lies in a folder, compared with its manifest.
struct found_files {
  std::vector<damaged_file> damaged;
  std::vector<std::string> strays;  ///< relative paths that the manifest does not name, not read
};

/// Whether the manifest's `path` lies below the folder `part`; every path lies below the empty one.
bool lies_in(std::string_view path, std::string_view part);

/// Reads and compares every file that the manifest names below `part` (empty: every file). Errors
/// are the system's, such as `io` or `exhausted`, and name the file: they say nothing of what lies
/// there.
base::expected<found_files> check_files(const std::filesystem::path& folder,
                                        const manifest& expected, std::string_view part = {});

}  // namespace quern::storage
