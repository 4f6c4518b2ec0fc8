// Reading, writing and comparing configurations. Strict: an unknown key is an error that names the
// nearest known one; a value out of range is an error that names value and range.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "actors/config/key_table.hpp"
#include "actors/config/run_config.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// The format that is written, and the earlier one that runs of earlier builds keep.
inline constexpr int config_version = 2;
inline constexpr int earlier_config_version = 1;

/// Who wrote a configuration. A person's file has the present version and names. What a run keeps
/// may be of an earlier build; then earlier names count as the present ones (renamed_keys.hpp).
enum class config_writer { person, run };

/// Parses YAML text on top of `config` (defaults or an earlier file). Never throws.
base::status apply_yaml(run_config& config, std::string_view yaml,
                        config_writer writer = config_writer::person);

/// One `--set path=value`.
base::status apply_setting(run_config& config, std::string_view assignment);

/// A person's file: defaults < file < settings, then checks between keys.
base::expected<run_config> load_config(const std::filesystem::path& file,
                                       const std::vector<std::string>& settings);

/// The same for a file that a run keeps: its config.yaml, or the plan of a stage.
base::expected<run_config> load_run_config(const std::filesystem::path& file,
                                           const std::vector<std::string>& settings);

/// The same from text; `name` stands in front of errors.
base::expected<run_config> load_config_text(std::string_view text, const std::string& name,
                                            const std::vector<std::string>& settings,
                                            config_writer writer = config_writer::person);

/// What holds where a file names this stage and this preset and nothing else; empty: none of its
/// own.
run_config usual_config(const std::string& stage, const std::string& preset);

/// A value as YAML has it.
std::string value_text(const config_key& key, const run_config& config);
/// "0 .. 100", "own | recorded", "true or false", "text".
std::string range_text(const config_key& key);

/// Paths that exist relative to the working directory become absolute, so that the run can be
/// resumed from anywhere. Others stay: they name something in the share folder.
void make_paths_absolute(run_config& config);

/// Rules between keys (a batch that never fills, a suite without a folder). Names both keys.
base::status check_config(const run_config& config);

/// Whether what was sampled under `before` can be trained under `after`: with actors.exact it is
/// computed again, with room for the lengths of `after`.
base::status check_lengths(const run_config& before, const run_config& after);

/// The whole configuration as YAML, every key written out. apply_yaml of it gives the same.
std::string to_yaml(const run_config& config);

/// configs/reference.yaml: defaults with range, class and reason of every key.
std::string reference_yaml();

/// One difference between two configurations.
struct key_difference {
  std::string path;
  std::string before;
  std::string after;
  key_class changes = key_class::fixed;
};

/// Differing keys, in the order of the table. A resume refuses those of class `fixed`.
std::vector<key_difference> differences(const run_config& before, const run_config& after);

}  // namespace quern::actors
