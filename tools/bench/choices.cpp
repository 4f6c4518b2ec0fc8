#include "tools/bench/choices.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "env/task/find_tasks.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using base::errc;

/// Folders with a suite.yaml, sorted.
std::vector<std::string> suites_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem))
    if (fs::exists(at->path() / "suite.yaml", problem))
      names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

base::expected<env::suite> find_suite(const std::string& given,
                                      const base::expected<fs::path>& shipped,
                                      const env::source_options& options) {
  std::error_code unused;
  if (fs::exists(given, unused) || env::names_foreign_tasks(given, options))
    return env::find_tasks(given, options);
  if (!shipped)
    return base::fail(errc::not_found,
                      "there is no folder '{}', and the shipped suites are not here: {}", given,
                      shipped.error().message);
  const auto names = suites_in(*shipped);
  if (std::find(names.begin(), names.end(), given) != names.end())
    return env::load_suite(*shipped / given);
  const std::vector<std::string_view> known(names.begin(), names.end());
  return base::fail(errc::not_found,
                    "there is no folder '{}', and no shipped suite of this name{}; shipped are {}",
                    given, base::did_you_mean(given, known), fmt::join(names, ", "));
}

base::expected<env::suite> with_degenerate(env::suite suite,
                                           const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const env::suite_member& member : suite.members)
    known.push_back(member.task.name);
  for (const std::string& name : names) {
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end())
      return base::fail(
          errc::not_found, "--degenerate: the suite {} has no task '{}'{}", suite.name, name,
          base::did_you_mean(name, std::vector<std::string_view>(known.begin(), known.end())));
    suite.members[static_cast<std::size_t>(at - known.begin())].task.degenerate = true;
  }
  return suite;
}

base::expected<chosen_gpus> choose_gpus(const env::gpu_host& host, const std::vector<int>& asked) {
  const int there = static_cast<int>(host.gpus.size());
  chosen_gpus chosen;
  for (int gpu = 0; gpu < there; ++gpu) {
    const std::string& problem = host.gpus[static_cast<std::size_t>(gpu)].problem;
    const bool named = std::find(asked.begin(), asked.end(), gpu) != asked.end();
    if (!named && !asked.empty()) continue;
    if (problem.empty()) {
      chosen.gpus.push_back(gpu);
    } else if (named) {
      return base::fail(errc::unavailable, "GPU {} does not compute: {}", gpu, problem);
    } else {
      chosen.left_out.push_back(
          fmt::format("GPU {} is left out, since it does not compute: {}", gpu, problem));
    }
  }
  for (const int gpu : asked) {
    if (gpu >= there)
      return base::fail(errc::invalid_argument, "--gpus names {}, this machine has {} GPUs", gpu,
                        there);
  }
  if (chosen.gpus.empty())
    return base::fail(errc::unavailable, "no GPU computes{}{}; quern doctor tells more",
                      chosen.left_out.empty() ? "" : ": ", fmt::join(chosen.left_out, "; "));
  return chosen;
}

}  // namespace quern::tools
