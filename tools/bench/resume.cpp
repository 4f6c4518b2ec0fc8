#include "tools/bench/resume.hpp"

#include <map>
#include <set>
#include <utility>

namespace quern::tools {

base::expected<std::vector<bench_result>> matching_results(
    std::span<const bench_result> earlier, std::span<const bench_candidate> candidates,
    const std::string& file) {
  std::map<std::pair<std::string, std::string>, const bench_candidate*> given;
  for (const bench_candidate& one : candidates)
    given[{one.task, one.id}] = &one;
  std::vector<bench_result> found;
  for (const bench_result& result : earlier) {
    const auto at = given.find({result.task, result.candidate});
    if (at == given.end()) continue;
    if (at->second->hash != result.source)
      return base::fail(base::errc::invalid_argument,
                        "{}: candidate '{}' of task {} was judged with another source than {} has "
                        "now: give it another id, or name another file with --out",
                        file, result.candidate, result.task, at->second->origin);
    found.push_back(result);
  }
  return found;
}

std::vector<std::size_t> unjudged(std::span<const bench_candidate> candidates,
                                  std::span<const bench_result> results) {
  std::set<std::pair<std::string, std::string>> there;
  for (const bench_result& one : results)
    there.emplace(one.task, one.candidate);
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!there.contains({candidates[i].task, candidates[i].id})) items.push_back(i);
  return items;
}

}  // namespace quern::tools
