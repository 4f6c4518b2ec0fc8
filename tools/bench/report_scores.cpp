// KernelBench's rows as text, JSON and HTML.
#include <fmt/format.h>

#include "tools/bench/python_json.hpp"
#include "tools/bench/report_forms.hpp"

namespace quern::tools {
namespace {

constexpr std::array score_heads = {"tasks", "compiled", "correct", "geomean"};
constexpr std::array spread_heads = {"mean", "max", "P75", "P50", "P25", ">1.01", "roofline"};

std::string set_of(bool without_degenerate, std::int64_t degenerate) {
  return without_degenerate ? fmt::format(", without {} degenerate", degenerate) : "";
}

std::string percent(double share, std::int64_t of) {
  return of > 0 ? fmt::format("{:.1f}%", 100 * share) : "-";
}

/// The cells of a row behind its name, in the order of the heads.
std::vector<std::string> cells_of(const score_row& row) {
  const auto times = [&](double value) {
    return row.speed.successes > 0 ? fmt::format("{:.2f}", value) : std::string("-");
  };
  std::vector<std::string> cells = {
      std::to_string(row.tasks), percent(rate_of(row.compiled, row.tasks), row.tasks),
      percent(rate_of(row.correct, row.tasks), row.tasks), times(row.speed.geometric_mean)};
  for (const double share : row.fast)
    cells.push_back(percent(share, row.tasks));
  for (const double value :
       {row.speed.mean, row.speed.max, row.speed.p75, row.speed.p50, row.speed.p25})
    cells.push_back(times(value));
  cells.push_back(percent(row.speed.faster_share, row.tasks));
  cells.push_back(percent(row.roofline.mean, row.roofline.tasks));
  return cells;
}

std::vector<std::string> heads_of() {
  std::vector<std::string> heads(score_heads.begin(), score_heads.end());
  for (const double p : kernelbench_thresholds)
    heads.push_back(fmt::format("fast_{:g}", p));
  heads.insert(heads.end(), spread_heads.begin(), spread_heads.end());
  return heads;
}

std::string text_line(const std::string& name, const std::vector<std::string>& cells) {
  std::string line = fmt::format("  {:<44}", name);
  for (const std::string& cell : cells)
    line += fmt::format(" {:>8}", cell);
  return line + "\n";
}

/// A line for each set of tasks; pass@k does not depend on a baseline.
std::string pass_text(const bench_scores& scores) {
  std::string text;
  for (const pass_row& row : scores.pass) {
    std::string line;
    for (const auto& [k, share] : row.of_k)
      line += fmt::format("{}pass@{} {}", line.empty() ? "" : ", ", k, percent(share, row.tasks));
    text += fmt::format("  {} tasks{}: {}\n", row.tasks,
                        set_of(row.without_degenerate, scores.degenerate), line);
  }
  return text;
}

base::ordered_json row_json(const score_row& row) {
  base::ordered_json fast = base::ordered_json::object();
  for (std::size_t i = 0; i < row.fast.size(); ++i)
    fast[python_float(kernelbench_thresholds[i])] = row.fast[i];
  base::ordered_json out = {{"view", row.view},
                            {"without_degenerate", row.without_degenerate},
                            {"tasks", row.tasks},
                            {"compiled", row.compiled},
                            {"compilation_rate", rate_of(row.compiled, row.tasks)},
                            {"correct", row.correct},
                            {"correctness_rate", rate_of(row.correct, row.tasks)}};
  const auto put = [&](const char* key, double value) {
    out[key] = row.speed.successes > 0 ? base::ordered_json(value) : base::ordered_json(nullptr);
  };
  put("geo_mean_speedup", row.speed.geometric_mean);
  out["fast_p"] = std::move(fast);
  put("mean", row.speed.mean);
  put("max", row.speed.max);
  put("p75", row.speed.p75);
  put("p50", row.speed.p50);
  put("p25", row.speed.p25);
  out["above_1.01"] = row.speed.faster_share;
  out["roofline"] = nullptr;
  if (row.roofline.tasks > 0)
    out["roofline"] = {{"tasks", row.roofline.tasks},
                       {"mean", row.roofline.mean},
                       {"p50", row.roofline.median},
                       {"max", row.roofline.largest}};
  return out;
}

}  // namespace

std::string to_text(const bench_scores& scores) {
  std::string out;
  for (const score_table& table : scores.tables) {
    if (!out.empty()) out += "\n";
    out += fmt::format("KernelBench's figures, speed-ups over {}\n", table.over);
    if (!table.warning.empty()) out += fmt::format("  WARNING: {}\n", table.warning);
    out += text_line("", heads_of());
    for (const score_row& row : table.rows)
      out += text_line(row.view + set_of(row.without_degenerate, scores.degenerate), cells_of(row));
    if (&table == &scores.tables.front()) out += pass_text(scores);
  }
  return out;
}

base::ordered_json to_json(const bench_scores& scores) {
  base::ordered_json tables = base::ordered_json::array(), pass = base::ordered_json::array();
  for (const score_table& table : scores.tables) {
    base::ordered_json rows = base::ordered_json::array();
    for (const score_row& row : table.rows)
      rows.push_back(row_json(row));
    base::ordered_json one = {{"over", table.over}};
    if (!table.warning.empty()) one["warning"] = table.warning;
    one["rows"] = std::move(rows);
    tables.push_back(std::move(one));
  }
  for (const pass_row& row : scores.pass) {
    base::ordered_json one = {{"without_degenerate", row.without_degenerate}, {"tasks", row.tasks}};
    for (const auto& [k, share] : row.of_k)
      one[fmt::format("pass@{}", k)] = share;
    pass.push_back(std::move(one));
  }
  return {{"degenerate_tasks", scores.degenerate},
          {"tables", std::move(tables)},
          {"pass_at_k", std::move(pass)}};
}

std::string to_html(const bench_scores& scores) {
  std::string out;
  for (const score_table& table : scores.tables) {
    out += fmt::format("<p>Speed-ups over {}.</p>\n", escape_html(table.over));
    if (!table.warning.empty())
      out += fmt::format("<p class=warn>{}</p>\n", escape_html(table.warning));
    out += "<div class=wide><table><tr><th></th>";
    for (const std::string& head : heads_of())
      out += fmt::format("<th>{}</th>", escape_html(head));
    out += "</tr>\n";
    for (const score_row& row : table.rows) {
      out += fmt::format("<tr><td>{}</td>",
                         escape_html(row.view + set_of(row.without_degenerate, scores.degenerate)));
      for (const std::string& cell : cells_of(row))
        out += fmt::format("<td>{}</td>", escape_html(cell));
      out += "</tr>\n";
    }
    out += "</table></div>\n";
    if (&table == &scores.tables.front() && !scores.pass.empty())
      out += "<pre>" + escape_html(pass_text(scores)) + "</pre>\n";
  }
  return out;
}

}  // namespace quern::tools
