// What a run was begun with outside of its folder, and what of it is something else now: the policy
// that it began with, its tasks, its recorded completions. Paths do not count, contents do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "policy/weights/model_digest.hpp"

namespace quern::actors {

/// Key of meta.json.
inline constexpr const char* begun_with_key = "begun_with";

/// A task by its content, and in which half of the run's tasks it is.
struct known_task {
  std::string id;  ///< NAME@HASH
  bool held_out = false;
  friend bool operator==(const known_task&, const known_task&) = default;
};

/// What the run does not use is absent: the model in stage sft, which begins with fresh weights;
/// tasks that are generated for a corpus; completions that are not recorded.
struct run_inputs {
  std::optional<std::vector<policy::model_file>> model;  ///< of policy.model, by name
  std::optional<std::vector<known_task>> tasks;          ///< of tasks.suite, or drawn
  std::optional<base::hash128> recorded;                 ///< of policy.recorded
};

/// Of the run in `folder`, or that is to begin there, with the tasks that preflight() made. Reads
/// the model's folder as policy::digest_model says, and the recorded completions that the run
/// plays: its own copy where it has one. Errors: a file that cannot be read.
base::expected<run_inputs> inputs_of(const run_config& config, const std::filesystem::path& folder,
                                     const task_book& tasks);

/// Names of what is another one. `differ`: there as before, with another content.
struct changed_names {
  std::vector<std::string> differ, missing, added;
  [[nodiscard]] bool any() const { return !differ.empty() || !missing.empty() || !added.empty(); }
};

/// What run_inputs have that others had not, or reversed.
struct changed_inputs {
  changed_names model;             ///< files
  changed_names tasks;             ///< names of tasks
  std::vector<std::string> moved;  ///< tasks that were trained on and are held out, or reversed
  bool recorded = false;
  [[nodiscard]] bool any() const {
    return model.any() || tasks.any() || !moved.empty() || recorded;
  }
};

/// What of `begun` is another one `now`. What one of them does not have is not compared.
changed_inputs compare(const run_inputs& begun, const run_inputs& now);

/// For meta.json (docs/formats/run_folder.md).
base::json to_json(const run_inputs& inputs);

/// From the text of a run's meta.json; none where it has no such key: a build that kept none began
/// the run. Errors: corrupt, naming the key.
base::expected<std::optional<run_inputs>> inputs_in(const base::json& meta);

/// Whether a run may go on with what there is now. Errors: invalid_argument, naming the key and its
/// value, what is another one and what to do.
base::status check_inputs(const run_config& config, const std::filesystem::path& folder,
                          const changed_inputs& changed);

/// Whether the run in `folder` may go on, by its meta.json `meta`. A run that kept no inputs may.
/// Errors: of inputs_in, inputs_of and check_inputs.
base::status check_begun_with(const run_config& config, const std::filesystem::path& folder,
                              const base::json& meta, const task_book& tasks);

/// The same of its tasks alone, for what only reads the run: no other file has to be there.
base::status check_tasks_begun_with(const run_config& config, const std::filesystem::path& folder,
                                    const base::json& meta, const task_book& tasks);

}  // namespace quern::actors
