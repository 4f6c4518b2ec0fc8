// The plots of the report: plain SVG, no script.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tools/bench/report_forms.hpp"

namespace quern::tools {
namespace {

constexpr const char* first_colour = "#1f6feb";
constexpr const char* second_colour = "#d1661c";

std::string svg_open(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n",
      width, height);
}

std::string svg_text(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#333\">{}</text>\n",
                     x, y, anchor, escape_html(text));
}

std::string svg_line(double x0, double y0, double x1, double y1, const char* colour) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x0, y0, x1,
      y1, colour);
}

std::string svg_bar(double x, double y, double width, double height, const char* colour) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
      width, height, colour);
}

/// Speed-ups on a logarithmic axis whose ends are powers of two around the values and 1/2 .. 4.
struct speed_axis {
  double low = -1, high = 2;  ///< log2
  double left = 0, width = 1;

  void hold(double speedup) {
    low = std::min(low, std::floor(std::log2(speedup)));
    high = std::max(high, std::ceil(std::log2(speedup)));
  }
  [[nodiscard]] double at(double speedup) const {
    return left + width * (std::log2(speedup) - low) / (high - low);
  }
  [[nodiscard]] std::string ticks(double top, double bottom) const {
    std::string out;
    // At most some ten labels, however wide the range.
    const double step = std::max(1.0, std::ceil((high - low) / 10));
    for (double p = low; p <= high; p += step) {
      const double x = at(std::exp2(p));
      out += svg_line(x, top, x, bottom, p == 0 ? "#888" : "#e4e4e4");
      out += svg_text(x, bottom + 16, "middle", fmt::format("{:g}x", std::exp2(p)));
    }
    return out;
  }
};

/// The share above p falls by one attempt at each speed-up.
std::string fast_curve(const speed_axis& axis, std::span<const double> sorted,
                       std::int64_t attempts, double top, double height, const char* colour) {
  if (attempts <= 0) return "";
  std::string points;
  auto above = static_cast<double>(sorted.size());
  const auto y_of = [&](double count) {
    return top + height * (1 - count / static_cast<double>(attempts));
  };
  points += fmt::format("{:.1f},{:.1f}", axis.left, y_of(above));
  for (const double value : sorted) {
    const double x = axis.at(value);
    points += fmt::format(" {:.1f},{:.1f}", x, y_of(above));
    above -= 1;
    points += fmt::format(" {:.1f},{:.1f}", x, y_of(above));
  }
  points += fmt::format(" {:.1f},{:.1f}", axis.left + axis.width, y_of(above));
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n",
                     colour, points);
}

}  // namespace

std::string plot_fast(std::span<const double> best, std::int64_t tasks,
                      std::span<const double> every, std::int64_t judged) {
  constexpr double top = 12, height = 240, bottom = top + height;
  speed_axis axis{.left = 56, .width = 620};
  for (const auto& values : {best, every})
    for (const double value : values)
      axis.hold(value);
  std::string out = svg_open(720, bottom + 44) + axis.ticks(top, bottom);
  for (int percent = 0; percent <= 100; percent += 25) {
    const double y = bottom - height * percent / 100;
    out += svg_line(axis.left, y, axis.left + axis.width, y, "#e4e4e4");
    out += svg_text(axis.left - 6, y + 4, "end", fmt::format("{} %", percent));
  }
  out += fast_curve(axis, every, judged, top, height, second_colour);
  out += fast_curve(axis, best, tasks, top, height, first_colour);
  const double legend = bottom + 28;
  out += svg_bar(axis.left, legend, 12, 12, first_colour);
  out += svg_text(axis.left + 18, legend + 10, "start", "best of each task");
  out += svg_bar(axis.left + 170, legend, 12, 12, second_colour);
  out += svg_text(axis.left + 188, legend + 10, "start", "every candidate");
  out += svg_text(axis.left + axis.width, legend + 10, "end", "share with a speed-up above p");
  return out + "</svg>\n";
}

std::string plot_tasks(const bench_report& report) {
  std::vector<const report_task*> rows;
  speed_axis axis{.left = 300, .width = 400};
  for (const report_task& row : report.tasks) {
    rows.push_back(&row);
    if (row.best_speedup > 0) axis.hold(row.best_speedup);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const report_task* a, const report_task* b) {
    return a->best_speedup > b->best_speedup;
  });
  constexpr double step = 18, top = 6;
  const double bottom = top + step * static_cast<double>(rows.size());
  std::string out = svg_open(780, bottom + 26) + axis.ticks(top, bottom);
  double y = top;
  for (const report_task* row : rows) {
    out += svg_text(axis.left - 8, y + 13, "end", row->name);
    if (row->best_speedup > 0) {
      const double from = axis.at(1), to = axis.at(row->best_speedup);
      out += svg_bar(std::min(from, to), y + 3, std::max(std::abs(to - from), 1.0), step - 6,
                     row->best_speedup > faster_threshold ? first_colour : second_colour);
      out += svg_text(axis.left + axis.width + 6, y + 13, "start",
                      fmt::format("{:.2f}", row->best_speedup));
    } else {
      out += svg_text(axis.left + axis.width + 6, y + 13, "start",
                      row->candidates == 0 ? "none given" : "none ok");
    }
    y += step;
  }
  return out + "</svg>\n";
}

std::string plot_kinds(const bench_report& report) {
  constexpr double step = 18, left = 150, width = 480;
  std::int64_t most = 1;
  for (const auto& [kind, count] : report.kinds)
    most = std::max(most, count);
  std::string out = svg_open(720, step * static_cast<double>(report.kinds.size()) + 8);
  double y = 4;
  for (const auto& [kind, count] : report.kinds) {
    const double length = width * static_cast<double>(count) / static_cast<double>(most);
    out += svg_text(left - 8, y + 13, "end", kind);
    out += svg_bar(left, y + 3, length, step - 6, kind == "ok" ? first_colour : second_colour);
    out += svg_text(left + length + 6, y + 13, "start", std::to_string(count));
    y += step;
  }
  return out + "</svg>\n";
}

}  // namespace quern::tools
