#include "actors/inspect/prometheus_text.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "actors/inspect/series_words.hpp"
#include "storage/line_series.hpp"

namespace quern::actors {
namespace {

struct metric {
  std::string name;
  std::string_view help;
  std::string samples;  ///< lines
};

std::string escaped(std::string_view label) {
  std::string text;
  for (const char c : label) {
    if (c == '\\' || c == '"') text += '\\';
    c == '\n' ? text += "\\n" : text += c;
  }
  return text;
}

/// "batch/verdicts/*" is "quern_batch_verdicts".
std::string metric_name(std::string_view keys) {
  std::string name = "quern";
  for (std::size_t begin = 0; begin < keys.size();) {
    const std::size_t end = std::min(keys.find('/', begin), keys.size());
    if (const std::string_view key = keys.substr(begin, end - begin); key != "*") {
      name += '_';
      for (const char c : key)
        name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    }
    begin = end + 1;
  }
  return name;
}

metric& metric_of(std::vector<metric>& all, std::string name, std::string_view help) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const metric& one) { return one.name == name; });
  if (found != all.end()) return *found;
  all.push_back({std::move(name), help, {}});
  return all.back();
}

void add(std::vector<metric>& all, const storage::series_value& number) {
  const auto known = find_series(number.name);
  if (!known) {
    metric& flat = metric_of(all, metric_name(number.name), "a number of metrics.jsonl");
    flat.samples += fmt::format("{} {}\n", flat.name, number.value);
    return;
  }
  metric& one = metric_of(all, metric_name(known->entry->name), known->entry->help);
  const std::string label =
      known->entry->label.empty()
          ? std::string()
          : fmt::format("{{{}=\"{}\"}}", known->entry->label, escaped(known->varying));
  one.samples += fmt::format("{}{} {}\n", one.name, label, number.value);
}

}  // namespace

std::string prometheus_text(std::string_view run_name, const base::ordered_json& line) {
  std::vector<metric> all{{"quern_up", "1 while the run's control process answers",
                           fmt::format("quern_up{{run=\"{}\"}} 1\n", escaped(run_name))}};
  for (const storage::series_value& number : storage::numbers_of(line))
    add(all, number);
  std::string text;
  for (const metric& one : all)
    text +=
        fmt::format("# HELP {} {}\n# TYPE {} gauge\n{}", one.name, one.help, one.name, one.samples);
  return text;
}

}  // namespace quern::actors
