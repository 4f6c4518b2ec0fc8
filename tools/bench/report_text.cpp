// The report as text and as JSON, and the line of progress.
#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/bench/report_forms.hpp"

namespace quern::tools {
namespace {

std::string times_text(double speedup) {
  return speedup > 0 ? fmt::format("{:.2f}", speedup) : "-";
}

std::string share_text(const speed_statistics& s, double share) {
  return s.attempts == 0 ? "-" : fmt::format("{:.1f}%", 100 * share);
}

std::string statistics_line(const std::string& name, const speed_statistics& s) {
  std::string line = fmt::format(
      "  {:<28} {:>6} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} |", name, s.attempts,
      share_text(s, s.success_share), times_text(s.mean), times_text(s.geometric_mean),
      times_text(s.max), times_text(s.p75), times_text(s.p50), times_text(s.p25),
      s.attempts == 0 ? "-" : fmt::format("{:.2f}", s.mean_failures_0),
      share_text(s, s.faster_share));
  for (const double share : s.fast)
    line += fmt::format(" {:>7}", share_text(s, share));
  return line + "\n";
}

std::string statistics_head(const char* view, const char* unit) {
  std::string line = fmt::format(
      "{}\n  {:<28} {:>6} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} |", view, "", unit,
      "success", "mean", "geomean", "max", "P75", "P50", "P25", "mean/0", ">1.01");
  for (const double p : fast_thresholds)
    line += fmt::format(" {:>7}", fmt::format("fast_{:g}", p));
  return line + "\n";
}

base::ordered_json statistics_json(const speed_statistics& s) {
  base::ordered_json fast = base::ordered_json::object();
  for (std::size_t i = 0; i < fast_thresholds.size(); ++i)
    fast[fmt::format("{:g}", fast_thresholds[i])] = s.fast[i];
  base::ordered_json out = {
      {"attempts", s.attempts}, {"successes", s.successes}, {"success_share", s.success_share}};
  // What nothing succeeded for has no value; 0 would be read as a speed-up.
  const bool any = s.successes > 0;
  const auto put = [&](const char* key, double value) {
    out[key] = any ? base::ordered_json(value) : base::ordered_json(nullptr);
  };
  put("mean", s.mean);
  put("geometric_mean", s.geometric_mean);
  put("max", s.max);
  put("p75", s.p75);
  put("p50", s.p50);
  put("p25", s.p25);
  out["mean_failures_0"] = s.mean_failures_0;
  out["above_1.01"] = s.faster_share;
  out["fast_p"] = std::move(fast);
  return out;
}

}  // namespace

std::string to_text(const bench_report& report, const bench_scores& scores, bool each_task) {
  const bench_header& h = report.header;
  std::string out = fmt::format(
      "suite {} ({} tasks, lane {}) on {}, protocol {}, {} ms a measurement\nenvironment {}\n",
      h.suite, report.tasks.size(), h.lane, h.device_class, h.protocol, h.budget_ms, h.environment);
  out += fmt::format("{} candidates", report.candidates);
  for (const auto& [kind, count] : report.kinds)
    out += fmt::format(", {} {}", count, kind);
  if (report.without_verdict > 0)
    out += fmt::format(", {} WITHOUT A VERDICT (the figures do not know them)",
                       report.without_verdict);
  out += "\n";
  for (const left_out_candidate& one : report.left_out)
    out += fmt::format("candidate '{}' of task {} was {}\n", one.candidate, one.task, one.why);
  const report_group& all = report.groups.front();
  if (all.without_candidates > 0)
    out += fmt::format("{} of {} tasks have no candidate and count as failures\n",
                       all.without_candidates, all.tasks);
  out += "\n" + to_text(scores);
  out += "\n" + statistics_head("best of each task", "tasks");
  for (const report_group& group : report.groups)
    out += statistics_line(fmt::format("{} {}", group.kind, group.name), group.best);
  out += "\n" + statistics_head("every candidate", "judged");
  for (const report_group& group : report.groups)
    out += statistics_line(fmt::format("{} {}", group.kind, group.name), group.every);
  if (each_task) {
    out += fmt::format("\n{:<40} {:>10} {:>6} {:>8} {:>8}  {}\n", "task", "candidates", "ok",
                       "best", "mean", "best candidate");
    for (const report_task& row : report.tasks)
      out += fmt::format("{:<40} {:>10} {:>6} {:>8} {:>8}  {}\n", row.name, row.candidates,
                         row.successes, times_text(row.best_speedup), times_text(row.mean_speedup),
                         row.best_candidate);
  }
  out += "\n";
  for (const std::string_view rule : report_rules())
    out += fmt::format("{}\n", rule);
  if (const std::string note = unsupported_note(report); !note.empty()) out += note + "\n";
  return out;
}

base::ordered_json to_json(const bench_report& report, const bench_scores& scores) {
  base::ordered_json groups = base::ordered_json::array();
  for (const report_group& group : report.groups)
    groups.push_back({{"kind", group.kind},
                      {"name", group.name},
                      {"tasks", group.tasks},
                      {"tasks_without_candidates", group.without_candidates},
                      {"unmeasured", group.unmeasured},
                      {"best_of_each_task", statistics_json(group.best)},
                      {"every_candidate", statistics_json(group.every)}});
  base::ordered_json tasks = base::ordered_json::array();
  for (const report_task& row : report.tasks) {
    const bool any = row.successes > 0;
    base::ordered_json one = {{"task", row.name},
                              {"family", row.family},
                              {"held_out", row.held_out},
                              {"candidates", row.candidates},
                              {"judged", row.judged},
                              {"successes", row.successes},
                              {"unmeasured", row.unmeasured}};
    one["best_speedup"] = any ? base::ordered_json(row.best_speedup) : nullptr;
    one["mean_speedup"] = any ? base::ordered_json(row.mean_speedup) : nullptr;
    one["best_candidate"] = any ? base::ordered_json(row.best_candidate) : nullptr;
    tasks.push_back(std::move(one));
  }
  base::ordered_json left_out = base::ordered_json::array();
  for (const left_out_candidate& one : report.left_out)
    left_out.push_back({{"task", one.task}, {"candidate", one.candidate}, {"why", one.why}});
  base::ordered_json unsupported = {{"reasons", base::ordered_json::object()},
                                    {"note", unsupported_note(report)}};
  for (const auto& [reason, count] : report.unsupported)
    unsupported["reasons"][reason] = count;
  base::ordered_json header = to_json(report.header);
  header.erase("quern_bench");
  base::ordered_json kinds = base::ordered_json::object();
  for (const auto& [kind, count] : report.kinds)
    kinds[kind] = count;
  base::ordered_json rules = base::ordered_json::array();
  for (const std::string_view rule : report_rules())
    rules.push_back(rule);
  return {{"quern_bench_report", 1},
          {"of", std::move(header)},
          {"kernelbench", to_json(scores)},
          {"candidates", report.candidates},
          {"without_verdict", report.without_verdict},
          {"verdicts", std::move(kinds)},
          {"unsupported", std::move(unsupported)},
          {"left_out", std::move(left_out)},
          {"groups", std::move(groups)},
          {"tasks", std::move(tasks)},
          {"rules", std::move(rules)}};
}

std::string progress_line(std::int64_t done, std::int64_t all, std::int64_t fresh,
                          std::int64_t successes, base::nanoseconds_t elapsed) {
  std::string line = fmt::format("{}/{} judged, {} ok", done, all, successes);
  if (fresh <= 0 || elapsed <= 0) return line;
  const double each_ns = static_cast<double>(elapsed) / static_cast<double>(fresh);
  line += fmt::format(", {:.0f} an hour", 3600e9 / each_ns);
  if (done < all)
    line += fmt::format(", {} left", base::human_duration(static_cast<base::nanoseconds_t>(
                                         each_ns * static_cast<double>(all - done))));
  return line;
}

}  // namespace quern::tools
