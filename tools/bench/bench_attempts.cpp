#include "tools/bench/bench_attempts.hpp"

#include <algorithm>
#include <map>

namespace quern::tools {
namespace {

std::optional<env::run_statistics> statistics_in_ms(const std::vector<std::int64_t>& means_ns) {
  if (means_ns.empty()) return std::nullopt;
  std::vector<double> ms;
  for (const std::int64_t ns : means_ns)
    ms.push_back(static_cast<double>(ns) / 1e6);
  return env::run_statistics_of(ms);
}

}  // namespace

task_attempts attempts_of(const env::suite& suite, std::span<const bench_candidate> candidates,
                          std::span<const bench_result> results) {
  std::map<std::pair<std::string, std::string>, const env::verdict*> verdicts;
  for (const bench_result& one : results)
    verdicts[{one.task, one.candidate}] = &one.verdict;
  task_attempts all(suite.members.size());
  std::vector<std::int64_t> next(suite.members.size(), 0);
  for (const bench_candidate& one : candidates)
    if (one.sample) next[one.member] = std::max(next[one.member], *one.sample + 1);
  for (const bench_candidate& one : candidates) {
    const auto judged = verdicts.find({one.task, one.id});
    all[one.member].push_back({one.id, one.sample ? *one.sample : next[one.member]++,
                               judged == verdicts.end() ? nullptr : judged->second});
  }
  for (auto& of_task : all)
    std::stable_sort(of_task.begin(), of_task.end(),
                     [](const auto& a, const auto& b) { return a.sample < b.sample; });
  return all;
}

std::int64_t most_attempts(const task_attempts& attempts) {
  std::size_t most = 0;
  for (const auto& of_task : attempts)
    most = std::max(most, of_task.size());
  return static_cast<std::int64_t>(most);
}

bool is_compiled(const env::verdict& v) {
  switch (v.kind) {
    case env::verdict_kind::malformed:
    case env::verdict_kind::rejected_static:
    case env::verdict_kind::compile_error:
    case env::verdict_kind::invalid_reference:
    case env::verdict_kind::infra_error:
    case env::verdict_kind::unsupported:
      return false;
    case env::verdict_kind::timeout:
      return v.reason != "compile";
    default:
      return true;
  }
}

bool is_correct(const env::verdict& v) {
  return v.kind == env::verdict_kind::ok;
}

std::optional<env::run_statistics> candidate_ms(const env::verdict& v) {
  return v.time ? statistics_in_ms(v.time->cand_ns) : std::nullopt;
}

std::optional<env::run_statistics> baseline_ms(const env::verdict& v) {
  return v.time ? statistics_in_ms(v.time->ref_ns) : std::nullopt;
}

}  // namespace quern::tools
