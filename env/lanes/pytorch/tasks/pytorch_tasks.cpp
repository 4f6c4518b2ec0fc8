#include "env/lanes/pytorch/tasks/pytorch_tasks.hpp"

#include "env/lanes/pytorch/tasks/module_records.hpp"
#include "env/lanes/pytorch/tasks/module_tree.hpp"

namespace quern::env {

namespace {

bool is_record_file(const std::string& text) {
  return text.ends_with(".jsonl") || text.ends_with(".json");
}

bool knows_modules(const std::string& text) {
  if (is_kernelbench_name(text)) return true;
  std::error_code unused;
  if (std::filesystem::is_directory(text, unused)) return is_module_folder(text);
  return text.ends_with(".py") || is_record_file(text);
}

base::expected<suite> read_modules(const lane& of, const std::string& text,
                                   const source_options& options) {
  if (is_kernelbench_name(text)) return read_kernelbench(of, text, options);
  std::error_code unused;
  if (std::filesystem::is_directory(text, unused)) return read_module_folder(of, text, options);
  return is_record_file(text) ? read_record_file(of, text, options)
                              : read_module_file(of, text, options);
}

base::expected<std::vector<bundled_candidate>> read_solutions(const lane& /*of*/,
                                                              const std::string& text,
                                                              const source_options& /*options*/) {
  std::error_code unused;
  const bool is_folder = std::filesystem::is_directory(text, unused);
  if (is_folder || is_kernelbench_name(text) || !is_record_file(text))
    return std::vector<bundled_candidate>();
  return read_record_candidates(text);
}

}  // namespace

constexpr task_source pytorch_tasks{
    .forms =
        "kernelbench:LEVEL, kernelbench:FIRST-LAST or kernelbench:LEVEL/PROBLEM; a .py file with "
        "class Model, a folder of these, or .jsonl or .json records with ref_code or code",
    .knows = knows_modules,
    .read = read_modules,
    .candidates = read_solutions,
};

}  // namespace quern::env
