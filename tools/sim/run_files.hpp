// What a simulated run has on disk: a folder that is gone with it, the model that all runs share,
// and tasks. In memory (/dev/shm) where there is such a place.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/file.hpp"
#include "tools/sim/oracle.hpp"
#include "tools/sim/world.hpp"

namespace quern::sim {

inline constexpr std::string_view lane = "cpp";
inline constexpr std::string_view device_class = "cpp-avx2";

/// The configuration of a schedule's run.
actors::run_config config_of(const scenario& plan);

/// Of all schedules of this process; made by the first that asks, never freed. Thread-safe.
const actors::task_book& shared_tasks();
/// The id of the task with this hash; empty: there is none.
const std::string& task_of(const base::hash128& hash);

/// A folder for one run. Ends the process with a message where none can be made.
base::temp_folder make_run_folder();

/// Weights in a checkpoint's folder: a file with their hash.
base::status write_weights(const std::filesystem::path& folder, const base::hash128& hash);
base::expected<base::hash128> read_weights(const std::filesystem::path& model);

}  // namespace quern::sim
