// What kind of file system a folder is on. SQLite's write-ahead log lives in memory that processes
// of one machine share (https://sqlite.org/wal.html, "all processes using a database must be on the
// same host computer"): on a network file system run.db would be damaged, sooner or later.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/status.hpp"

namespace quern::storage {

struct file_system {
  std::string name;      ///< "NFS"; of a local one only that it is local
  bool network = false;  ///< several machines may have the same files
};

/// By the number that statfs gives (`f_type`, linux/magic.h) and, for the many kinds behind FUSE,
/// the type in /proc/self/mountinfo ("fuse.sshfs"; empty: not known). A kind that is not known to
/// be of a network counts as local.
file_system file_system_of(std::uint64_t magic, std::string_view mounted_as);

/// The type of the mount that `path` lies on, by the text of a mountinfo file: of those whose mount
/// point holds it the longest, of equal ones the last, which covers the others. Empty: none.
std::string mount_type_of(std::string_view mountinfo, const std::filesystem::path& path);

/// Asks Linux about `path`, or its nearest parent that is there. What Linux does not tell
/// counts as local.
file_system file_system_at(const std::filesystem::path& path);

/// file_system_at, or what a test puts in its place.
using file_system_probe = std::function<file_system(const std::filesystem::path&)>;

/// Error: `unavailable` when `folder` is on a network file system, naming it, with what to do.
base::status check_file_system(const std::filesystem::path& folder, const file_system_probe& probe);

}  // namespace quern::storage
