#include "tools/benchmarks/bench_pytorch/rate_list.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file.hpp"
#include "env/lanes/pytorch/text/python_facts.hpp"
#include "env/task/find_tasks.hpp"
#include "tools/bench/candidates.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_text = std::size_t{1} << 20;

rated_module rated_of(std::string name, std::shared_ptr<const env::task> subject,
                      std::string source) {
  const auto facts = env::facts_of_python(env::tokenize_python(source));
  rated_module one{std::move(name), std::move(subject), std::move(source)};
  one.has_cuda = (facts.uses_load_inline || facts.uses_load) &&
                 one.source.find("__global__") != std::string::npos;
  one.has_triton = facts.uses_triton_jit;
  return one;
}

/// Folders below `folder` that have NAME/reference.py and NAME/candidate.py.
base::expected<std::vector<fs::path>> pairs_below(const fs::path& folder) {
  std::vector<fs::path> pairs;
  std::error_code error;
  for (const auto& item : fs::recursive_directory_iterator(folder, error))
    if (item.path().filename() == "candidate.py" &&
        fs::exists(item.path().parent_path() / "reference.py"))
      pairs.push_back(item.path().parent_path());
  if (error) return base::fail(base::errc::not_found, "{}: {}", folder.string(), error.message());
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

base::expected<rated_module> pair_of(const fs::path& folder) {
  QUERN_TRY(const auto reference, base::read_file(folder / "reference.py", longest_text));
  QUERN_TRY(auto source, base::read_file(folder / "candidate.py", longest_text));
  std::string name = folder.filename().string();
  // Names of tasks are letters, digits and _.
  std::string word = "pair_" + name;
  std::replace_if(
      word.begin(), word.end(), [](unsigned char letter) { return std::isalnum(letter) == 0; },
      '_');
  QUERN_TRY(auto subject, module_task_of(word.substr(0, 60), reference));
  return rated_of(std::move(name), std::move(subject), std::move(source));
}

/// Those of KernelBench's folder form.
base::status add_kernelbench(const pytorch_bench_options& o, const std::string& folder,
                             const env::suite& suite, std::vector<rated_module>& all) {
  skipped_candidates skipped;
  QUERN_TRY(const auto found, read_candidates(folder, suite, &skipped));
  if (found.empty())
    return base::fail(base::errc::not_found,
                      "{} has neither folders with reference.py and candidate.py nor files "
                      "level_L_problem_P_sample_S_kernel.py of tasks of {}",
                      folder, o.kernelbench);
  std::vector<std::shared_ptr<const env::task>> tasks(suite.members.size());
  for (const bench_candidate& one : found) {
    auto& subject = tasks[one.member];
    if (!subject) subject = std::make_shared<const env::task>(suite.members[one.member].task);
    all.push_back(rated_of(fs::path(one.id).stem().string(), subject, one.source));
  }
  return {};
}

}  // namespace

base::expected<std::vector<rated_module>> read_rated_modules(const pytorch_bench_options& o) {
  std::vector<rated_module> all;
  if (o.honest) {
    QUERN_TRY(const auto honest, read_honest_modules(o.source));
    for (const honest_module& one : honest) {
      if (!one.is_supported) continue;
      all.push_back(rated_of(one.name, one.subject, one.source));
      all.back().is_honest = true;
    }
  }
  std::optional<env::suite> suite;
  for (const std::string& folder : o.folders) {
    QUERN_TRY(const auto pairs, pairs_below(folder));
    for (const fs::path& pair : pairs) {
      QUERN_TRY(auto one, pair_of(pair));
      all.push_back(std::move(one));
    }
    if (!pairs.empty()) continue;
    if (o.kernelbench.empty())
      return base::fail(base::errc::invalid_argument,
                        "{} has no folders with reference.py and candidate.py; of "
                        "level_L_problem_P_sample_S_kernel.py the tasks are asked: say "
                        "--kernelbench TREE",
                        folder);
    if (!suite) {
      env::source_options from;
      from.kernelbench = o.kernelbench;
      QUERN_TRY(suite, env::find_tasks("kernelbench:1-3", from));
    }
    QUERN_CHECK(add_kernelbench(o, folder, *suite, all));
  }
  std::sort(all.begin(), all.end(),
            [](const rated_module& a, const rated_module& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      all.begin(), all.end(),
      [](const rated_module& a, const rated_module& b) { return a.name == b.name; });
  if (twice != all.end())
    return base::fail(base::errc::invalid_argument,
                      "two candidates are called {}: name folders whose candidates have names of "
                      "their own",
                      twice->name);
  if (all.empty())
    return base::fail(base::errc::invalid_argument, "no candidates: name a folder, or --honest");
  QUERN_CHECK(keep_named(all, o.only));
  return all;
}

env::evaluation_request rated_request(const rated_module& one, std::uint64_t seed) {
  env::evaluation_request request;
  request.subject = one.subject;
  request.source = one.source;
  request.seed = seed;
  return request;
}

}  // namespace quern::tools
