// Counting of what sandboxed children leave behind.
#include "sandbox_fixture.hpp"

#include <filesystem>

namespace quern::test {

namespace fs = std::filesystem;

std::set<std::string> control_groups_left() {
  std::set<std::string> found;
  const std::string mine = "quern-" + std::to_string(getpid()) + "-";
  const auto place = env::probe_host().cgroups;
  for (const fs::path& folder : {place.memory, place.pids}) {
    std::error_code error;
    for (const auto& item : fs::directory_iterator(folder, error))
      if (item.path().filename().string().starts_with(mine)) found.insert(item.path().string());
  }
  return found;
}

std::set<std::string> deeds_still_running() {
  std::set<std::string> found;
  std::error_code error;
  for (const auto& item : fs::directory_iterator("/proc", error)) {
    const auto program = fs::read_symlink(item.path() / "exe", error);
    if (!error && program == deed_program()) found.insert(item.path().string());
  }
  return found;
}

}  // namespace quern::test
