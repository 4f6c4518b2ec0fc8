// Names of KernelBench's tasks, and where its tree is.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include <fmt/ranges.h>

#include "env/lanes/pytorch/tasks/module_tree.hpp"

namespace quern::env {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view benchmark_word = "kernelbench";
constexpr const char* tree_variable = "KERNELBENCH";
constexpr std::string_view how_to_get =
    "git clone https://github.com/ScalingIntelligence/KernelBench, whose v0.2 is revision 423217d, "
    "and name the folder with --kernelbench, the variable KERNELBENCH or the key tasks.kernelbench";

struct kernelbench_words {
  std::string version;  ///< empty: the tree's own levels
  int first = 0;
  int last = 0;
  std::optional<int> problem;
};

/// Takes a number of at most six digits from the beginning of `text`.
std::optional<int> take_tree_number(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  int number = 0;
  if (digits == 0 || digits > 6) return std::nullopt;
  std::from_chars(text.data(), text.data() + digits, number);
  text.remove_prefix(digits);
  return number;
}

/// Takes `sign` from the beginning of `text`, where it stands there.
bool take_tree_sign(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

bool is_tree_version(std::string_view text) {
  const bool letters = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  return letters && !text.empty() && !text.starts_with('.');
}

std::optional<kernelbench_words> parse_kernelbench(std::string_view text) {
  kernelbench_words words;
  text.remove_prefix(benchmark_word.size());
  if (take_tree_sign(text, '@')) {
    const std::size_t end = std::min(text.find(':'), text.size());
    words.version = text.substr(0, end);
    if (!is_tree_version(words.version)) return std::nullopt;
    text.remove_prefix(end);
  }
  if (!take_tree_sign(text, ':')) return std::nullopt;
  const auto first = take_tree_number(text);
  if (!first) return std::nullopt;
  words.first = words.last = *first;
  if (take_tree_sign(text, '-')) {
    const auto last = take_tree_number(text);
    if (!last || *last < *first) return std::nullopt;
    words.last = *last;
  } else if (take_tree_sign(text, '/')) {
    words.problem = take_tree_number(text);
    if (!words.problem) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return words;
}

/// The tree, with its levels.
struct found_kernelbench_tree {
  fs::path folder;
  std::map<int, fs::path> levels;
};

base::expected<found_kernelbench_tree> find_kernelbench_tree(const std::string& text,
                                                             const source_options& options) {
  std::string folder = options.kernelbench;
  if (folder.empty())
    if (const char* named = std::getenv(tree_variable); named != nullptr) folder = named;
  if (folder.empty())
    return base::fail(base::errc::not_found, "{} needs KernelBench's tree, and none is named: {}",
                      text, how_to_get);
  found_kernelbench_tree tree{folder, levels_in(folder)};
  if (!tree.levels.empty()) return tree;
  return base::fail(base::errc::not_found,
                    "{} needs KernelBench's tree, but {} has no folder level1 or "
                    "KernelBench/level1: {}",
                    text, folder, how_to_get);
}

/// Levels of a version that lies beside those of the tree.
base::expected<std::map<int, fs::path>> levels_of_version(const found_kernelbench_tree& tree,
                                                          const std::string& version) {
  const fs::path beside = tree.levels.begin()->second.parent_path();
  std::vector<std::string> tried;
  for (const fs::path& folder :
       {beside / "changelog" / version, beside / version, tree.folder / version}) {
    if (auto levels = levels_in(folder); !levels.empty()) return levels;
    tried.push_back(folder.string());
  }
  return base::fail(base::errc::not_found,
                    "there is no version '{}' of KernelBench with folders level1...: tried {}",
                    version, fmt::join(tried, ", "));
}

std::string kernelbench_suite_name(const kernelbench_words& words) {
  std::string name(benchmark_word);
  if (!words.version.empty()) name += "_" + word_of(words.version, 40);
  name += fmt::format("_level{}", words.first);
  if (words.last != words.first) name += fmt::format("_{}", words.last);
  if (words.problem) name += fmt::format("_problem{}", *words.problem);
  return name;
}

}  // namespace

bool is_kernelbench_name(std::string_view text) {
  // Behind '#' stands the name of one task.
  if (!text.starts_with(benchmark_word) || text.find('#') != std::string_view::npos) return false;
  text.remove_prefix(benchmark_word.size());
  return text.starts_with(':') || text.starts_with('@');
}

base::expected<suite> read_kernelbench(const lane& of, const std::string& text,
                                       const source_options& options) {
  const auto words = parse_kernelbench(text);
  if (!words)
    return base::fail(base::errc::invalid_argument,
                      "'{}' names no tasks of KernelBench: write kernelbench:1 for a level, "
                      "kernelbench:1-3 for several, kernelbench:1/3 for a problem, and "
                      "kernelbench@v0.1:1 for a version that lies beside",
                      text);
  QUERN_TRY(const torch_precision precision, precision_of(options));
  QUERN_TRY(const found_kernelbench_tree tree, find_kernelbench_tree(text, options));
  auto levels = tree.levels;
  if (!words->version.empty()) {
    QUERN_TRY(levels, levels_of_version(tree, words->version));
  }
  module_suite made(of, precision);
  for (int level = words->first; level <= words->last; ++level) {
    const auto there = levels.find(level);
    if (there == levels.end()) {
      std::vector<int> known;
      for (const auto& [number, folder] : levels)
        known.push_back(number);
      return base::fail(base::errc::not_found, "{} has no level {}: it has {}",
                        tree.folder.string(), level, fmt::join(known, ", "));
    }
    QUERN_CHECK(add_level(made, there->second, level, words->problem));
  }
  return made.finish(kernelbench_suite_name(*words), tree.folder.string());
}

}  // namespace quern::env
