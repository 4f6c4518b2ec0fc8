#include "tools/cli/shipped_tasks.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/program.hpp"
#include "base/text.hpp"
#include "env/task/find_tasks.hpp"

namespace quern::tools {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

constexpr std::string_view task_suffix = ".task.yaml";

/// "cpu/softmax_rows" to the files of shipped tasks.
base::expected<std::vector<std::pair<std::string, fs::path>>> shipped_tasks() {
  QUERN_TRY(const fs::path suites, base::share_folder("env/suites"));
  std::vector<std::pair<std::string, fs::path>> found;
  std::error_code code;
  for (auto at = fs::recursive_directory_iterator(suites, code);
       !code && at != fs::recursive_directory_iterator(); at.increment(code)) {
    std::string name = fs::relative(at->path(), suites, code).string();
    if (!name.ends_with(task_suffix)) continue;
    name.resize(name.size() - task_suffix.size());
    found.emplace_back(std::move(name), at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

base::expected<std::string> shipped_task(const std::string& word) {
  QUERN_TRY(const auto all, shipped_tasks());
  std::vector<std::string> fitting;
  std::vector<std::string_view> names;
  fs::path file;
  for (const auto& [name, path] : all) {
    const std::string_view bare = std::string_view(name).substr(name.rfind('/') + 1);
    // As it was written: with its suite, or without.
    names.push_back(word.find('/') == word.npos ? bare : std::string_view(name));
    if (name != word && bare != word) continue;
    fitting.push_back(name);
    file = path;
  }
  if (fitting.size() == 1) return file.string();
  if (fitting.empty())
    return fail(errc::not_found,
                "there is no task file '{}', and no shipped task of this name{}: name a file "
                "NAME.task.yaml, one of {} shipped tasks such as {}, or a task of others{}",
                word, base::did_you_mean(word, names), all.size(),
                all.empty() ? "-" : all.front().first, env::foreign_forms());
  return fail(errc::invalid_argument, "{} suites have a task '{}': say which: {}", fitting.size(),
              word, fmt::join(fitting, ", "));
}

}  // namespace

base::expected<std::string> resolve_task(const std::string& word,
                                         const env::source_options& options) {
  std::error_code ignored;
  if (env::names_foreign_tasks(word, options) || fs::exists(word, ignored)) return word;
  return shipped_task(word);
}

}  // namespace quern::tools
