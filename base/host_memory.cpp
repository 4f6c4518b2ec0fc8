// How much memory a process may have on this machine.
#include "base/host_memory.hpp"

#include <charconv>
#include <fstream>
#include <system_error>

#include <unistd.h>

namespace quern::base {
namespace {

namespace fs = std::filesystem;

/// Of a group's file; "max" of version 2 and a file that is not there are no limit.
void bound_by(const fs::path& file, host_memory& known) {
  std::ifstream in(file);
  std::string text;
  if (!(in >> text)) return;
  std::int64_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || end != text.data() + text.size() || limit >= known.bytes) return;
  known = {limit, file.string()};
}

/// The group at `path` and those around it, up to the root of the hierarchy. In a container `path`
/// may be the host's, of which only the root is shown: the folders that are not there say nothing.
void bound_by_groups(const fs::path& root, const fs::path& path, const char* file,
                     host_memory& known) {
  for (fs::path group = path.relative_path();; group = group.parent_path()) {
    bound_by(root / group / file, known);
    if (group.empty()) return;
  }
}

}  // namespace

host_memory host_memory_within(std::int64_t physical, const fs::path& listing,
                               const fs::path& mounted) {
  host_memory known{physical, {}};
  std::ifstream lines(listing);
  // "4:memory:/a/b", version 2 as "0::/a/b".
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = line.substr(second + 1);
    if (controllers == ",,") bound_by_groups(mounted, path, "memory.max", known);
    if (controllers.find(",memory,") != std::string::npos)
      bound_by_groups(mounted / "memory", path, "memory.limit_in_bytes", known);
  }
  return known;
}

host_memory own_host_memory() {
  const std::int64_t physical =
      std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGESIZE)};
  return host_memory_within(physical, "/proc/self/cgroup", "/sys/fs/cgroup");
}

}  // namespace quern::base
