#include "tools/bench/baseline_table.hpp"

#include <array>
#include <charconv>

#include "env/measure/protocols.hpp"
#include "tools/bench/kernelbench_baselines.hpp"
#include "tools/bench/python_json.hpp"

namespace quern::tools {
namespace {

using base::errc;

constexpr std::int64_t terms_version = 1;
constexpr int deepest_table = 8;

base::ordered_json json_of_row(const baseline_row& row) {
  return {{"mean", row.mean},    {"std", row.deviation},     {"min", row.least},
          {"max", row.largest},  {"num_trials", row.trials}, {"hardware", row.hardware},
          {"device", row.device}};
}

base::expected<baseline_row> row_from_json(const base::json& value) {
  baseline_row row;
  QUERN_TRY(row.mean, base::get<double>(value, "mean"));
  QUERN_TRY(row.deviation, base::get<double>(value, "std"));
  QUERN_TRY(row.least, base::get<double>(value, "min"));
  QUERN_TRY(row.largest, base::get<double>(value, "max"));
  QUERN_TRY(row.trials, base::get<std::int64_t>(value, "num_trials"));
  QUERN_TRY(row.hardware, base::get<std::string>(value, "hardware"));
  QUERN_TRY(row.device, base::get<std::string>(value, "device"));
  return row;
}

base::status refuse_terms(std::string_view what, std::string_view there, std::string_view now) {
  return base::fail(errc::invalid_argument,
                    "holds times with another {} ('{}', now '{}'), which cannot stand in one "
                    "table: name another place with --out",
                    what, there, now);
}

}  // namespace

std::string baseline_file_name(env::reference_mode mode) {
  constexpr std::array<std::string_view, env::reference_mode_count> names{
      "",
      "_compile_inductor_default",
      "_compile_inductor_reduce-overhead",
      "_compile_inductor_max-autotune",
      "_compile_inductor_max-autotune-no-cudagraphs",
      "_compile_cudagraphs"};
  return fmt::format("baseline_time_torch{}.json", names[static_cast<std::size_t>(mode)]);
}

baseline_row row_of_times(const std::vector<std::int64_t>& times_ns, std::string hardware,
                          std::string device) {
  std::vector<double> ms;
  for (const std::int64_t ns : times_ns)
    ms.push_back(static_cast<double>(ns) / 1e6);
  const env::run_statistics s = env::run_statistics_of(ms);
  return {s.mean,
          s.deviation,
          s.least,
          s.largest,
          static_cast<std::int64_t>(ms.size()),
          std::move(hardware),
          std::move(device)};
}

base::expected<baseline_table> baseline_table::parse(std::string_view text, std::string_view name) {
  // First by the rules of whoever reads the table later: levels, names, means.
  QUERN_CHECK(parse_kernelbench_baselines(text, name));
  QUERN_TRY(const base::json whole, base::parse_json(text, deepest_table));
  baseline_table table;
  for (const auto& [key, files] : whole.items()) {
    int level = 0;
    std::from_chars(key.data() + std::string_view("level").size(), key.data() + key.size(), level);
    for (const auto& [file, entry] : files.items()) {
      auto row = row_from_json(entry);
      if (!row) return base::in_context(fmt::format("{}: {}: '{}'", name, key, file), row.error());
      table.add(level, file, std::move(*row));
    }
  }
  return table;
}

std::string baseline_table::text() const {
  base::ordered_json levels = base::ordered_json::object();
  for (const auto& [at, row] : rows_)
    levels[fmt::format("level{}", at.level)][at.file] = json_of_row(row);
  return python_json(levels, 4);
}

baseline_table::place baseline_table::place_of(int level, const std::string& file) {
  place at{level, 0, file};
  std::from_chars(file.data(), file.data() + file.size(), at.number);
  return at;
}

bool baseline_table::has(int level, const std::string& file) const {
  return rows_.contains(place_of(level, file));
}

void baseline_table::add(int level, const std::string& file, baseline_row row) {
  rows_[place_of(level, file)] = std::move(row);
}

base::ordered_json to_json(const baseline_terms& terms,
                           const std::vector<left_out_task>& left_out) {
  base::ordered_json tasks = base::ordered_json::array();
  for (const left_out_task& one : left_out)
    tasks.push_back({{"level", one.level}, {"file", one.file}, {"reason", one.reason}});
  return {{"quern_baselines", terms_version}, {"mode", terms.mode},
          {"precision", terms.precision},     {"hardware", terms.hardware},
          {"device", terms.device},           {"device_class", terms.device_class},
          {"settings", terms.settings},       {"warm_up", terms.warm_up},
          {"trials", terms.trials},           {"budget_ms", terms.budget_ms},
          {"left_out", std::move(tasks)}};
}

base::expected<baseline_terms> terms_from_json(const base::json& value) {
  QUERN_TRY(const auto version, base::get<std::int64_t>(value, "quern_baselines"));
  if (version != terms_version)
    return base::fail(errc::version, "quern_baselines is {}, this build knows {}", version,
                      terms_version);
  baseline_terms terms;
  QUERN_TRY(terms.mode, base::get<std::string>(value, "mode"));
  QUERN_TRY(terms.precision, base::get<std::string>(value, "precision"));
  QUERN_TRY(terms.hardware, base::get<std::string>(value, "hardware"));
  QUERN_TRY(terms.device, base::get<std::string>(value, "device"));
  QUERN_TRY(terms.device_class, base::get<std::string>(value, "device_class"));
  QUERN_TRY(terms.settings, base::get<std::string>(value, "settings"));
  QUERN_TRY(terms.warm_up, base::get<std::int64_t>(value, "warm_up"));
  QUERN_TRY(terms.trials, base::get<std::int64_t>(value, "trials"));
  QUERN_TRY(terms.budget_ms, base::get<std::int64_t>(value, "budget_ms"));
  return terms;
}

base::status check_same_terms(const baseline_terms& there, const baseline_terms& now) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::array<std::array<std::string, 3>, 9> all{{
      {"mode", there.mode, now.mode},
      {"precision", there.precision, now.precision},
      {"hardware (--hardware)", there.hardware, now.hardware},
      {"device", there.device, now.device},
      {"device class", there.device_class, now.device_class},
      {"PyTorch (settings)", there.settings, now.settings},
      {"number of warm-up calls", text(there.warm_up), text(now.warm_up)},
      {"number of trials (--trials)", text(there.trials), text(now.trials)},
      {"budget of a reference, in ms (--budget-s)", text(there.budget_ms), text(now.budget_ms)},
  }};
  for (const auto& [what, before, after] : all)
    if (before != after) return refuse_terms(what, before, after);
  return {};
}

}  // namespace quern::tools
