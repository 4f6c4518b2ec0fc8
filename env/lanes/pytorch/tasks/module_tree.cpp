#include "env/lanes/pytorch/tasks/module_tree.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <vector>

#include "base/file.hpp"

namespace quern::env {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view level_word = "level";

/// The 3 of "level3"; nothing for other names.
std::optional<int> folder_level_of(std::string_view name) {
  if (!name.starts_with(level_word)) return std::nullopt;
  name.remove_prefix(level_word.size());
  int level = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), level);
  if (code != std::errc() || end != name.data() + name.size() || level < 0) return std::nullopt;
  // "level01" would be the same level twice.
  return std::to_string(level) == name ? std::optional(level) : std::nullopt;
}

std::map<int, fs::path> levels_right_in(const fs::path& folder) {
  std::map<int, fs::path> levels;
  std::error_code problem;
  std::size_t seen = 0;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (++seen > max_modules) break;
    std::error_code unused;
    if (const auto level = folder_level_of(at->path().filename().string()))
      if (at->is_directory(unused)) levels.emplace(*level, at->path());
  }
  return levels;
}

bool is_module_name(const std::string& name) {
  return name.ends_with(".py") && !name.starts_with("_") && !name.starts_with(".");
}

base::expected<std::vector<fs::path>> modules_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    std::error_code unused;
    if (is_module_name(at->path().filename().string()) && at->is_regular_file(unused))
      files.push_back(at->path());
    if (files.size() > max_modules)
      return base::fail(base::errc::invalid_argument, "{} has more than {} modules: name one",
                        folder.string(), max_modules);
  }
  if (problem)
    return base::fail(base::errc::io, "cannot list {}: {}", folder.string(), problem.message());
  std::sort(files.begin(), files.end());
  return files;
}

/// "folder/" and "." name a folder, too.
std::string module_folder_name(const fs::path& folder) {
  std::error_code unused;
  fs::path named = fs::absolute(folder, unused).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  return named.filename().string();
}

base::expected<python_module> read_module_text(const fs::path& file) {
  python_module module;
  module.origin = file.string();
  QUERN_TRY(module.text, base::read_file(file, max_module_bytes));
  return module;
}

std::string module_suite_name(std::string_view title) {
  const std::string word = word_of(title, 100);
  return word.empty() ? "modules" : word;
}

}  // namespace

std::map<int, fs::path> levels_in(const fs::path& tree) {
  auto levels = levels_right_in(tree);
  return levels.empty() ? levels_right_in(tree / "KernelBench") : levels;
}

bool is_module_folder(const fs::path& folder) {
  std::error_code problem;
  if (!fs::is_directory(folder, problem)) return false;
  if (fs::exists(folder / "suite.yaml", problem)) return false;
  bool modules = false;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".task.yaml")) return false;
    modules = modules || is_module_name(name);
  }
  return modules || !levels_in(folder).empty();
}

base::status add_level(module_suite& to, const fs::path& folder, int level,
                       std::optional<int> problem) {
  QUERN_TRY(const auto files, modules_in(folder));
  std::map<int, fs::path> numbered;
  for (const fs::path& file : files) {
    const auto title = numbered_title_of(file.filename().string());
    if (!title) continue;
    const auto [there, fresh] = numbered.emplace(title->number, file);
    if (!fresh)
      return base::fail(base::errc::invalid_argument,
                        "{} and {} are both problem {}: leave one out", there->second.string(),
                        file.string(), title->number);
  }
  if (problem && !numbered.contains(*problem))
    return base::fail(base::errc::not_found, "level {} in {} has no problem {}{}", level,
                      folder.string(), *problem,
                      numbered.empty()
                          ? ", nor another"
                          : fmt::format(": it has {}, from {} to {}", numbered.size(),
                                        numbered.begin()->first, numbered.rbegin()->first));
  for (const auto& [number, file] : numbered) {
    if (problem && number != *problem) continue;
    QUERN_TRY(python_module module, read_module_text(file));
    const std::string name = file.filename().string();
    module.title = numbered_title_of(name)->title;
    module.family = fmt::format("level{}", level);
    module.place = benchmark_place{level, number, name};
    QUERN_CHECK(to.add(module, same_name::refuse));
  }
  return {};
}

base::expected<suite> read_module_folder(const lane& of, const fs::path& folder,
                                         const source_options& options) {
  QUERN_TRY(const torch_precision precision, precision_of(options));
  module_suite made(of, precision);
  const std::string name = module_folder_name(folder);
  auto levels = levels_in(folder);
  if (levels.empty())
    if (const auto level = folder_level_of(name)) levels.emplace(*level, folder);
  for (const auto& [level, path] : levels)
    QUERN_CHECK(add_level(made, path, level, std::nullopt));
  if (levels.empty()) {
    QUERN_TRY(const auto files, modules_in(folder));
    for (const fs::path& file : files) {
      QUERN_TRY(python_module module, read_module_text(file));
      module.title = file.stem().string();
      module.family = name;
      QUERN_CHECK(made.add(module, same_name::refuse));
    }
  }
  return made.finish(module_suite_name(name), folder.string());
}

base::expected<suite> read_module_file(const lane& of, const fs::path& file,
                                       const source_options& options) {
  QUERN_TRY(const torch_precision precision, precision_of(options));
  QUERN_TRY(python_module module, read_module_text(file));
  module.title = file.stem().string();
  module.family = "modules";
  std::error_code unused;
  const std::string folder = module_folder_name(fs::absolute(file, unused).parent_path());
  const std::string name = file.filename().string();
  const auto level = folder_level_of(folder);
  if (const auto title = numbered_title_of(name); level && title) {
    module.title = title->title;
    module.family = folder;
    module.place = benchmark_place{*level, title->number, name};
  }
  module_suite made(of, precision);
  QUERN_CHECK(made.add(module, same_name::refuse));
  return made.finish(module_name(module), file.string());
}

}  // namespace quern::env
