#include "storage/disk_room.hpp"

#include <fmt/core.h>

#include "base/text.hpp"

namespace quern::storage {
namespace fs = std::filesystem;

std::optional<std::uint64_t> free_bytes(const fs::path& folder) {
  std::error_code code;
  fs::path there = fs::absolute(folder, code);
  while (!fs::exists(there, code) && there.has_relative_path())
    there = there.parent_path();
  const fs::space_info room = fs::space(there, code);
  if (code) return std::nullopt;
  return room.available;
}

std::string warning_of_room(const fs::path& folder, std::uint64_t bytes,
                            std::optional<std::uint64_t> free) {
  if (!free || *free >= bytes) return {};
  return fmt::format(
      "the next checkpoint takes {}, {} are free for {}: free some, or the run ends there and goes "
      "on from the last one with quern resume; fewer stay with a lower storage.keep_checkpoints",
      base::human_bytes(bytes), base::human_bytes(*free), folder.string());
}

}  // namespace quern::storage
