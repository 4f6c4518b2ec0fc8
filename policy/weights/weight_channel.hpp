// New weights from the learner to generators of the same host: flat arenas as files in shared
// memory (a folder on tmpfs). Two slots take turns, so that a reader that is one version behind
// still finds its file whole. Between hosts another channel takes its place; the messages stay the
// same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/status.hpp"
#include "policy/weights/dtype.hpp"

namespace quern::policy {

/// Files of one size that take memory at a time, at most: two slots, the one that is being written,
/// and one that was replaced while a generator still reads it.
inline constexpr std::int64_t published_copies = 4;

/// /dev/shm, where that is a writable tmpfs.
std::optional<std::filesystem::path> shared_memory_folder();

/// A private folder for one run in the shared memory, else below `fallback`.
base::expected<std::filesystem::path> make_weights_folder(const std::filesystem::path& fallback);

/// Writes the arena, whose elements are of `type`, into the version's slot under `folder`; returns
/// the file's name. Whole or not at all: readers see the former content until it is renamed into
/// place. Error: exhausted, where the file system is full, with its folder, what is needed and what
/// is free.
base::expected<std::string> publish_weights(const std::filesystem::path& folder,
                                            std::int64_t version, weight_dtype type,
                                            std::span<const std::byte> arena);

/// Fills `arena` from a published file of exactly this type and size. The caller checks the hash:
/// it is the hash, not the name, that says what was read.
base::status read_weights(const std::filesystem::path& folder, const std::string& file,
                          weight_dtype type, std::span<std::byte> arena);

}  // namespace quern::policy
