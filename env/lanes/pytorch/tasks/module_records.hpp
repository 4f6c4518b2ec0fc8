// Files of JSON records with Python modules: the columns of KernelBench's set, CUDA-L1's forms.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "env/lanes/pytorch/tasks/module_import.hpp"

namespace quern::env {

/// One record. `module.family` is "levelN" where the record has a level, else empty.
struct module_record {
  python_module module;
  std::size_t number = 0;  ///< of its line or, where records are not lines, its place from 1
  /// Column and text of the solutions that stand in it, in a fixed order of columns.
  std::vector<std::pair<std::string, std::string>> candidates;
};

/// The records of a file: JSON lines, one record, a list of records, or an object of lists with a
/// level as key. Columns that are read, the first that is there of each row:
///   module:    ref_code, original_code, code
///   level:     level, level_id, problem_level    (a number or a text that ends with one)
///   problem:   problem_id, task_id
///   name:      name, problem_name
///   solutions: custom_code, cuda_graph_code, cudnn_code, kernel_code, each where it is a text and
///              not empty or "None"
/// Others are passed over. `name` is that of the file, for messages. Errors name the line or the
/// record. Whatever the bytes.
base::expected<std::vector<module_record>> parse_module_records(std::string_view text,
                                                                std::string_view name);

/// The tasks of a file; records with equal modules of one name are one task.
base::expected<suite> read_record_file(const lane& of, const std::filesystem::path& file,
                                       const source_options& options);

/// The solutions of a file, each for the module of its own record; called "COLUMN#NUMBER".
base::expected<std::vector<bundled_candidate>> read_record_candidates(
    const std::filesystem::path& file);

}  // namespace quern::env
