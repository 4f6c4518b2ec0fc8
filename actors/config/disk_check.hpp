// Whether the checkpoints of a run fit on the disk: known from the model's shape, before it starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/config/stages.hpp"
#include "base/status.hpp"
#include "policy/text/model_config.hpp"

namespace quern::actors {

/// Bytes of the files of one checkpoint: weights, and master weights and moments of all ranks.
std::int64_t checkpoint_bytes(const run_config& config, const policy::model_config& model);

/// Bytes that the checkpoints of the run in `folder` take beside those that are there: of those
/// that it will keep at a time, the one that an incarnation begins with, and the one that is
/// written before an old one goes.
std::int64_t checkpoint_bytes_to_come(const run_config& config, const policy::model_config& model,
                                      const std::filesystem::path& folder);

/// Whether `free` bytes of the disk of `folder` hold the checkpoints that the run in it will keep
/// at a time, the one that an incarnation begins with, and the one that is written before an old
/// one goes; those that are there are counted. None: nobody knows, which is no error. Error:
/// exhausted, with bytes, folder and keys.
base::status check_disk(const run_config& config, const policy::model_config& model,
                        const std::filesystem::path& folder, std::optional<std::uint64_t> free);

/// Least room for temporary files: sockets, and what several compilers write at once.
inline constexpr std::uint64_t least_temporary_bytes = 16ULL << 20;

/// Whether `free` bytes of the disk of the temporary folder hold what a run writes there: sockets,
/// compilers' files, candidates. None: nobody knows, which is no error. Error: exhausted, with
/// folder and bytes.
base::status check_temporary_room(const std::filesystem::path& folder,
                                  std::optional<std::uint64_t> free);

/// check_disk for the runs of all stages together, of which each keeps its checkpoints: in folders
/// of their names below `chain`.
base::status check_disk_of_chain(const std::vector<stage_plan>& stages,
                                 const policy::model_config& model,
                                 const std::filesystem::path& chain,
                                 std::optional<std::uint64_t> free);

}  // namespace quern::actors
