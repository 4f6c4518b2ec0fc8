#include "tools/bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "env/measure/stats.hpp"

namespace quern::tools {
namespace {

constexpr auto all_rules = std::to_array<std::string_view>({
    "A success is a verdict `ok`; its speed-up is the one that the verdict claims over the task's "
    "baseline, rounded toward 1.",
    "A failure has no speed-up: it is absent from means, maximum and percentiles, counts as 0 in "
    "'mean, failures 0', and as not fast in every share.",
    "Best of each task: every task of the suite counts once, by its fastest success; one without a "
    "success, or without a candidate, is a failure.",
    "Every candidate: each candidate that was judged counts once; verdicts that say nothing about "
    "it (noisy, unconfirmed, invalid_reference, infra_error) are left out and counted beside it.",
    "fast_p is the share that is right and whose speed-up is above p.",
    "KernelBench's figures: each task of the suite counts once, by its sample 0 or by its best; "
    "one without a candidate or a verdict is not compiled, not correct and not fast.",
});

struct group_source {
  std::string kind, name;
  std::function<bool(const env::suite_member&)> has_task;
  std::string device;  ///< empty: any
};

double claimed_speedup(const env::verdict& v) {
  return v.kind == env::verdict_kind::ok && v.speedup_e2 ? static_cast<double>(*v.speedup_e2) / 100
                                                         : 0;
}

report_group group_of(const group_source& from, const env::suite& suite,
                      std::span<const std::int64_t> candidates,
                      const std::vector<std::vector<const bench_result*>>& by_task) {
  report_group group{from.kind, from.name, {}, {}, 0, 0, 0};
  std::vector<double> best, every;
  std::int64_t judged = 0;
  for (std::size_t i = 0; i < suite.members.size(); ++i) {
    if (!from.has_task(suite.members[i])) continue;
    ++group.tasks;
    group.without_candidates += candidates[i] == 0 ? 1 : 0;
    double fastest = 0;
    for (const bench_result* one : by_task[i]) {
      if (!from.device.empty() && one->verdict.device_class != from.device) continue;
      if (!env::judges_candidate(one->verdict.kind)) {
        ++group.unmeasured;
        continue;
      }
      ++judged;
      const double speedup = claimed_speedup(one->verdict);
      if (speedup > 0) every.push_back(speedup);
      fastest = std::max(fastest, speedup);
    }
    if (fastest > 0) best.push_back(fastest);
  }
  group.best = statistics_of(best, group.tasks);
  group.every = statistics_of(every, judged);
  return group;
}

std::vector<group_source> sources_of(const env::suite& suite,
                                     const std::set<std::string>& devices) {
  const auto any = [](const env::suite_member&) { return true; };
  std::vector<group_source> sources = {{"all", suite.name, any, ""}};
  for (const std::string& device : devices)
    sources.push_back({"device", device, any, device});
  std::set<std::string> families;
  bool held_out = false;
  for (const env::suite_member& member : suite.members) {
    families.insert(member.task.family);
    held_out |= member.held_out;
  }
  if (held_out) {
    for (const bool held : {false, true})
      sources.push_back({"split", held ? "held out" : "trained on",
                         [held](const env::suite_member& m) { return m.held_out == held; }, ""});
  }
  for (const std::string& family : families)
    sources.push_back({"family", family,
                       [family](const env::suite_member& m) { return m.task.family == family; },
                       ""});
  return sources;
}

report_task task_of(const env::suite_member& member, std::int64_t candidates,
                    const std::vector<const bench_result*>& results) {
  report_task row;
  row.name = member.task.name;
  row.family = member.task.family;
  row.held_out = member.held_out;
  row.candidates = candidates;
  std::vector<double> speedups;
  for (const bench_result* one : results) {
    if (!env::judges_candidate(one->verdict.kind)) {
      ++row.unmeasured;
      continue;
    }
    ++row.judged;
    const double speedup = claimed_speedup(one->verdict);
    if (speedup <= 0) continue;
    speedups.push_back(speedup);
    if (speedup <= row.best_speedup) continue;
    row.best_speedup = speedup;
    row.best_candidate = one->candidate;
  }
  row.successes = static_cast<std::int64_t>(speedups.size());
  row.mean_speedup = env::mean_of(speedups);
  return row;
}

}  // namespace

speed_statistics statistics_of(std::span<const double> speedups, std::int64_t attempts) {
  speed_statistics s;
  s.attempts = attempts;
  s.successes = static_cast<std::int64_t>(speedups.size());
  if (attempts <= 0 || speedups.empty()) return s;
  const auto of_all = static_cast<double>(attempts);
  const auto share_above = [&](double limit) {
    return static_cast<double>(std::count_if(speedups.begin(), speedups.end(),
                                             [&](double value) { return value > limit; })) /
           of_all;
  };
  double sum = 0, logs = 0;
  for (const double value : speedups) {
    sum += value;
    logs += std::log(value);
  }
  const auto count = static_cast<double>(speedups.size());
  s.mean = sum / count;
  s.geometric_mean = std::exp(logs / count);
  s.max = *std::max_element(speedups.begin(), speedups.end());
  s.p75 = env::quantile_of(speedups, 0.75);
  s.p50 = env::quantile_of(speedups, 0.5);
  s.p25 = env::quantile_of(speedups, 0.25);
  s.mean_failures_0 = sum / of_all;
  s.success_share = count / of_all;
  s.faster_share = share_above(faster_threshold);
  for (std::size_t i = 0; i < fast_thresholds.size(); ++i)
    s.fast[i] = share_above(fast_thresholds[i]);
  return s;
}

bench_report make_report(const bench_header& header, const env::suite& suite,
                         std::span<const std::int64_t> candidates,
                         std::span<const bench_result> results) {
  bench_report report;
  report.header = header;
  std::map<std::string, std::size_t, std::less<>> index;
  for (std::size_t i = 0; i < suite.members.size(); ++i)
    index[suite.members[i].task.name] = i;
  std::vector<std::vector<const bench_result*>> by_task(suite.members.size());
  std::set<std::string> devices;
  for (const bench_result& one : results) {
    by_task[index.at(one.task)].push_back(&one);
    devices.insert(one.verdict.device_class);
    ++report.kinds[std::string(env::name_of(one.verdict.kind))];
    if (const double speedup = claimed_speedup(one.verdict); speedup > 0)
      report.every_speedup.push_back(speedup);
    if (one.verdict.kind == env::verdict_kind::unsupported)
      ++report.unsupported[unsupported_reason(one.verdict)];
    if (is_left_out(one.verdict))
      report.left_out.push_back({one.task, one.candidate, one.verdict.detail});
  }
  std::sort(report.every_speedup.begin(), report.every_speedup.end());
  for (std::size_t i = 0; i < suite.members.size(); ++i) {
    report.candidates += candidates[i];
    report.tasks.push_back(task_of(suite.members[i], candidates[i], by_task[i]));
  }
  report.without_verdict = report.candidates - static_cast<std::int64_t>(results.size());
  for (const group_source& source : sources_of(suite, devices))
    report.groups.push_back(group_of(source, suite, candidates, by_task));
  return report;
}

std::string unsupported_reason(const env::verdict& v) {
  if (!v.reason.empty()) return v.reason;
  std::string out;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < v.detail.size(); ++i) {
    const char c = v.detail[i];
    const std::size_t end = c == '\'' ? v.detail.find('\'', i + 1) : std::string::npos;
    if (end != std::string::npos) {
      out += "'...'";
      i = end;
    } else if (!is_digit(c)) {
      out += c;
    } else if (!out.ends_with('N')) {
      out += 'N';
    }
  }
  return out.empty() ? "no reason was told" : out;
}

std::string unsupported_note(const bench_report& report) {
  std::int64_t all = 0;
  std::string reasons;
  for (const auto& [reason, count] : report.unsupported) {
    all += count;
    reasons += fmt::format("{}{} x {}", reasons.empty() ? "" : "; ", count, reason);
  }
  if (all == 0) return {};
  return fmt::format(
      "{} candidate{} `unsupported` on this device class: {}. In KernelBench's rows they count as "
      "not compiled and not correct; no reward is made of them, and the other figures leave them "
      "out.",
      all, all == 1 ? " is" : "s are", reasons);
}

std::span<const std::string_view> report_rules() {
  return all_rules;
}

}  // namespace quern::tools
