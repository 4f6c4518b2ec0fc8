// Room on the file system that a folder is, or will be, on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace quern::storage {

/// Bytes that this user may still write at `folder`, or where its nearest parent is that is there.
/// None: the system does not say.
std::optional<std::uint64_t> free_bytes(const std::filesystem::path& folder);

/// What to say before a checkpoint of `bytes` is written into `folder`, with the bytes that are
/// needed and free; empty: there is room, or nobody knows.
std::string warning_of_room(const std::filesystem::path& folder, std::uint64_t bytes,
                            std::optional<std::uint64_t> free);

}  // namespace quern::storage
