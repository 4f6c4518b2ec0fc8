// Folders of Python modules as suites: KernelBench's tree, with levels and versions, and others.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/status.hpp"
#include "env/lanes/pytorch/tasks/module_import.hpp"

namespace quern::env {

/// Folders "level1", "level2"... of `tree`, or of its folder KernelBench, by their number. Empty
/// where there are none, or no such folder.
std::map<int, std::filesystem::path> levels_in(const std::filesystem::path& tree);

/// Whether `folder` has levels, or modules and no task files.
bool is_module_folder(const std::filesystem::path& folder);

/// The modules of a level's folder; files whose names do not begin with a number and _ are none
/// of them.
/// `problem`: this one alone. Errors: two files of one number, no such problem, those of
/// module_suite::add().
base::status add_level(module_suite& to, const std::filesystem::path& folder, int level,
                       std::optional<int> problem);

/// Every level of a folder, or of a folder without levels each *.py but those that begin with `_`
/// or `.`. A folder "level1" is a level.
base::expected<suite> read_module_folder(const lane& of, const std::filesystem::path& folder,
                                         const source_options& options);

/// The one module of a file; a file of a level in the folder "level1" is called as in its tree.
base::expected<suite> read_module_file(const lane& of, const std::filesystem::path& file,
                                       const source_options& options);

/// Whether a text begins as names of KernelBench's tasks do.
bool is_kernelbench_name(std::string_view text);

/// "kernelbench:LEVEL", "kernelbench:FIRST-LAST", "kernelbench:LEVEL/PROBLEM"; with "@VERSION"
/// behind the first word those of a folder VERSION or changelog/VERSION of the tree.
base::expected<suite> read_kernelbench(const lane& of, const std::string& text,
                                       const source_options& options);

}  // namespace quern::env
