// The report as one HTML page.
#include <algorithm>

#include <fmt/format.h>

#include "tools/bench/report_forms.hpp"

namespace quern::tools {
namespace {

constexpr std::string_view page_style = R"(
body{font:14px/1.45 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;margin:.5em 0 1.5em;font-variant-numeric:tabular-nums}
th,td{padding:.2em .6em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th:first-child,td:first-child,td.name{text-align:left}
.warn{color:#a40000;font-weight:600}
.wide{overflow-x:auto}
svg{max-width:100%;height:auto}
)";

std::string cell(double value, bool there) {
  return there ? fmt::format("<td>{:.2f}</td>", value) : "<td>&ndash;</td>";
}

std::string share_cell(double share, bool there) {
  return there ? fmt::format("<td>{:.1f} %</td>", 100 * share) : "<td>&ndash;</td>";
}

std::string statistics_row(const report_group& group, const speed_statistics& s) {
  const bool any = s.attempts > 0, success = s.successes > 0;
  std::string row = fmt::format("<tr><td>{} {}</td><td>{}</td>", escape_html(group.kind),
                                escape_html(group.name), s.attempts);
  row += share_cell(s.success_share, any);
  for (const double value : {s.mean, s.geometric_mean, s.max, s.p75, s.p50, s.p25})
    row += cell(value, success);
  row += cell(s.mean_failures_0, any) + share_cell(s.faster_share, any);
  for (const double share : s.fast)
    row += share_cell(share, any);
  return row + "</tr>\n";
}

std::string statistics_table(const bench_report& report, const char* unit,
                             speed_statistics report_group::*view) {
  std::string table = fmt::format(
      "<div class=wide><table><tr><th></th><th>{}</th><th>success</th><th>mean</th>"
      "<th>geometric mean</th><th>max</th><th>P75</th><th>P50</th><th>P25</th>"
      "<th>mean, failures 0</th><th>&gt; 1.01</th>",
      unit);
  for (const double p : fast_thresholds)
    table += fmt::format("<th>fast_{:g}</th>", p);
  table += "</tr>\n";
  for (const report_group& group : report.groups)
    table += statistics_row(group, group.*view);
  return table + "</table></div>\n";
}

std::string task_table(const bench_report& report) {
  std::string table =
      "<div class=wide><table><tr><th>task</th><th>family</th><th>split</th><th>candidates</th>"
      "<th>judged</th><th>ok</th><th>best</th><th>mean</th><th>best candidate</th></tr>\n";
  for (const report_task& row : report.tasks) {
    const bool any = row.successes > 0;
    table += fmt::format(
        "<tr><td>{}</td><td class=name>{}</td><td class=name>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td>{}{}<td class=name>{}</td></tr>\n",
        escape_html(row.name), escape_html(row.family), row.held_out ? "held out" : "",
        row.candidates, row.judged, row.successes, cell(row.best_speedup, any),
        cell(row.mean_speedup, any), escape_html(row.best_candidate));
  }
  return table + "</table></div>\n";
}

std::string introduction(const bench_report& report) {
  const bench_header& h = report.header;
  std::string out = fmt::format(
      "<h1>{}</h1>\n<p>{} tasks of lane {} on {}, protocol {}, {} ms a measurement. "
      "Environment {}, suite {}.</p>\n<p>{} candidates.</p>\n",
      escape_html(h.suite), report.tasks.size(), escape_html(h.lane), escape_html(h.device_class),
      escape_html(h.protocol), h.budget_ms, escape_html(h.environment), escape_html(h.suite_hash),
      report.candidates);
  if (report.without_verdict > 0)
    out += fmt::format(
        "<p class=warn>{} candidates have no verdict; the figures do not know them.</p>\n",
        report.without_verdict);
  for (const left_out_candidate& one : report.left_out)
    out += fmt::format("<p class=warn>Candidate '{}' of task {} was {}.</p>\n",
                       escape_html(one.candidate), escape_html(one.task), escape_html(one.why));
  const report_group& all = report.groups.front();
  if (all.without_candidates > 0)
    out += fmt::format("<p>{} of {} tasks have no candidate and count as failures.</p>\n",
                       all.without_candidates, all.tasks);
  if (all.unmeasured > 0)
    out += fmt::format("<p>{} verdicts say nothing about their candidate and are left out.</p>\n",
                       all.unmeasured);
  return out;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string to_html(const bench_report& report, const bench_scores& scores) {
  std::vector<double> best;
  for (const report_task& row : report.tasks)
    if (row.best_speedup > 0) best.push_back(row.best_speedup);
  std::sort(best.begin(), best.end());
  const report_group& all = report.groups.front();
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<title>quern bench: {}</title>\n<style>{}</style></head><body>\n",
      escape_html(report.header.suite), page_style);
  page += introduction(report);
  page += "<h2>KernelBench's figures</h2>\n" + to_html(scores);
  page += "<h2>Best of each task</h2>\n" + statistics_table(report, "tasks", &report_group::best);
  page += "<h2>Every candidate</h2>\n" + statistics_table(report, "judged", &report_group::every);
  page += "<h2>fast_p</h2>\n" +
          plot_fast(best, all.best.attempts, report.every_speedup, all.every.attempts);
  page += "<h2>Speed-up of the best candidate</h2>\n" + plot_tasks(report);
  page += "<h2>Verdicts</h2>\n" + plot_kinds(report);
  page += "<h2>Tasks</h2>\n" + task_table(report) + "<h2>Rules</h2>\n<ul>\n";
  for (const std::string_view rule : report_rules())
    page += fmt::format("<li>{}</li>\n", escape_html(rule));
  page += "</ul>\n";
  if (const std::string note = unsupported_note(report); !note.empty())
    page += fmt::format("<p>{}</p>\n", escape_html(note));
  return page + "</body></html>\n";
}

}  // namespace quern::tools
