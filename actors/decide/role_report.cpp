// Shares and rates as JSON, and as a table.
#include "actors/decide/role_report.hpp"

#include <cmath>

#include <fmt/format.h>

#include "actors/decide/bottleneck.hpp"

namespace quern::actors {
namespace {

/// Four digits are more than a clock is worth, and lines stay short.
double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

double seconds_of(nanoseconds_t span) {
  return static_cast<double>(span) / 1e9;
}

nanoseconds_t part_of(nanoseconds_t whole, double share) {
  return static_cast<nanoseconds_t>(std::llround(static_cast<double>(whole) * share));
}

double part_share(nanoseconds_t part, nanoseconds_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

base::ordered_json role_json(const role_time& role, nanoseconds_t wall) {
  base::ordered_json waits = base::ordered_json::object();
  for (const role_wait wait : all_role_waits) {
    const nanoseconds_t idle = role.idle_for[static_cast<std::size_t>(wait)];
    const double share = rounded(part_share(idle, role.present()));
    if (share > 0) waits[std::string(name_of(wait))] = share;
  }
  return {{"busy", rounded(role.busy_share())},
          {"idle", rounded(role.idle_share())},
          {"device_wait", rounded(role.device_share())},
          {"absent", rounded(part_share(role.absent, wall))},
          {"waits_for", std::move(waits)}};
}

base::expected<role_time> read_role(const base::json& from, nanoseconds_t wall) {
  role_time role;
  QUERN_TRY(const double busy, base::get<double>(from, "busy"));
  QUERN_TRY(const double device_wait, base::get<double>(from, "device_wait"));
  QUERN_TRY(const double absent, base::get<double>(from, "absent"));
  role.absent = part_of(wall, absent);
  const nanoseconds_t present = wall - role.absent;
  role.busy = part_of(present, busy);
  role.device_wait = part_of(present, device_wait);
  if (!from.contains("waits_for")) return role;
  for (const role_wait wait : all_role_waits) {
    if (const auto share = base::get<double>(from["waits_for"], name_of(wait)))
      role.idle_for[static_cast<std::size_t>(wait)] = part_of(present, *share);
  }
  return role;
}

std::string table_line(run_role role, const role_time& time, nanoseconds_t wall) {
  const auto percent = [](double share) { return std::lround(100 * share); };
  if (time.present() == 0) return fmt::format("    {:<10} not there\n", name_of(role));
  const long absent = percent(part_share(time.absent, wall));
  const bool tells = role != run_role::control && percent(time.idle_share()) > 0;
  const std::string_view waits = tells ? text_of(time.waits_for()) : "";
  std::string line =
      fmt::format("    {:<10}{:>4} %{:>6} %{:>11} %", name_of(role), percent(time.busy_share()),
                  percent(time.idle_share()), percent(time.device_share()));
  if (!waits.empty()) line += fmt::format("   {}", waits);
  if (absent > 0) line += fmt::format("   (nobody there {} % of the time)", absent);
  return line + "\n";
}

}  // namespace

base::ordered_json to_json(const loop_time& time) {
  base::ordered_json roles;
  for (const run_role role : all_run_roles)
    if (time.has(role)) roles[std::string(name_of(role))] = role_json(time.of(role), time.wall);
  return {{"span_s", rounded(seconds_of(time.wall))},
          {"tokens_generated", time.of(run_role::generator).done},
          {"tokens_per_s", rounded(time.per_second(run_role::generator))},
          {"evaluations", time.of(run_role::evaluator).done},
          {"evaluations_per_h", rounded(3600 * time.per_second(run_role::evaluator))},
          {"roles", std::move(roles)}};
}

base::expected<loop_time> read_loop_time(const base::json& line) {
  loop_time time;
  QUERN_TRY(const double seconds, base::get<double>(line, "span_s"));
  time.wall = static_cast<nanoseconds_t>(seconds * 1e9);
  QUERN_TRY(time.of(run_role::generator).done, base::get<std::int64_t>(line, "tokens_generated"));
  QUERN_TRY(time.of(run_role::evaluator).done, base::get<std::int64_t>(line, "evaluations"));
  if (!line.contains("roles"))
    return base::fail(base::errc::invalid_argument, "'roles' is missing");
  for (const run_role role : all_run_roles) {
    const auto found = line["roles"].find(std::string(name_of(role)));
    if (found == line["roles"].end()) {
      time.none_of[static_cast<std::size_t>(role)] = true;
      continue;
    }
    const std::int64_t done = time.of(role).done;
    QUERN_TRY(time.of(role), read_role(*found, time.wall));
    time.of(role).done = done;
  }
  return time;
}

nanoseconds_t device_wait_of(const std::string& verdict_json) {
  const auto verdict = base::parse_json(verdict_json);
  if (!verdict || !verdict->is_object()) return 0;
  return base::get<std::int64_t>(*verdict, "device_wait_ns").value_or(0);
}

base::ordered_json bottleneck_json(const loop_time& time) {
  return to_json(find_bottleneck(time));
}

base::ordered_json to_json(const bottleneck& found) {
  base::ordered_json by = base::ordered_json::array();
  for (const run_role role : found.by)
    by.push_back(name_of(role));
  return {{"kind", name_of(found.kind)}, {"by", std::move(by)}, {"text", found.text}};
}

std::string role_table(const loop_time& time, const std::string& of) {
  return role_table(time, of, find_bottleneck(time));
}

std::string role_table(const loop_time& time, const std::string& of, const bottleneck& held_back) {
  std::string text = fmt::format(
      "  {}: {:.0f} tokens/s, {:.0f} evaluations/h\n"
      "    role        busy    idle  device wait   waits for\n",
      of, time.per_second(run_role::generator), 3600 * time.per_second(run_role::evaluator));
  for (const run_role role : all_run_roles)
    if (time.has(role)) text += table_line(role, time.of(role), time.wall);
  return text + fmt::format("  {}\n", held_back.text);
}

}  // namespace quern::actors
