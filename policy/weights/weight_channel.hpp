// New weights from the learner to generators of the same host: flat arenas as files in shared
// memory (a folder on tmpfs). Two slots take turns, so that a reader that is one version behind
// still finds its file whole. Between hosts another channel takes its place; the messages stay the
// same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/status.hpp"

namespace quern::policy {

/// A private folder for one run on /dev/shm where that is a writable tmpfs, else below `fallback`.
base::expected<std::filesystem::path> make_weights_folder(const std::filesystem::path& fallback);

/// Writes the arena into the version's slot under `folder`; returns the file's name. Whole or not
/// at all: readers see the former content until it is renamed into place.
base::expected<std::string> publish_weights(const std::filesystem::path& folder,
                                            std::int64_t version, std::span<const std::byte> arena);

/// Fills `arena` from a published file of exactly this size. The caller checks the hash: it is the
/// hash, not the name, that says what was read.
base::status read_weights(const std::filesystem::path& folder, const std::string& file,
                          std::span<std::byte> arena);

}  // namespace quern::policy
