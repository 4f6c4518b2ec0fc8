#include "actors/inspect/ledger_state.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/inspect/sample_words.hpp"
#include "storage/sample_reader.hpp"

namespace quern::actors {
namespace {

namespace fs = std::filesystem;
using count_list = std::vector<std::pair<std::string, std::int64_t>>;

/// Larger ages are told together: a run may allow a thousand of them.
constexpr std::int64_t most_ages_told = 5;

/// The most first, equal ones by name.
count_list most_first(const std::map<std::string, std::int64_t>& counts) {
  count_list sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

}  // namespace

std::int64_t trained_steps(const ledger_state& state) {
  return state.position.checkpoint ? state.position.checkpoint->version : 0;
}

base::expected<bool> has_ledger(const storage::run_paths& paths) {
  std::error_code code;
  const auto bytes = fs::file_size(paths.database(), code);
  if (!code && bytes > 0) return true;
  for (const fs::path& made : {paths.checkpoints(), paths.blobs(), paths.metrics()}) {
    if (!fs::exists(made, code) || fs::is_empty(made, code)) continue;
    return base::fail(base::errc::io,
                      "{} is missing or empty, though {} holds what the run made: put its run.db "
                      "back, with run.db-wal where there was one",
                      paths.database().string(), made.string());
  }
  return false;
}

base::expected<ledger_state> read_ledger_state(const storage::run_paths& paths) {
  ledger_state state;
  QUERN_TRY(const bool there, has_ledger(paths));
  if (!there) return state;
  QUERN_TRY(const auto reader, storage::sample_reader::open(paths.database()));
  QUERN_TRY(state.position, reader.position());
  QUERN_TRY(storage::sample_totals totals, reader.totals());
  state.counts = totals.counts;
  state.drop_reasons = std::move(totals.drop_reasons);
  state.ages = std::move(totals.ages);
  return state;
}

std::string account_words(const ledger_state& state) {
  const storage::state_counts& counts = state.counts;
  if (counts.issued_ever == 0) return "No sample was issued yet.";
  std::int64_t found = 0;
  for (const std::int64_t one : counts.by_state)
    found += one;
  const std::int64_t in_flight = counts.in_flight();
  const std::string where = fmt::format(
      "{} issued: {} trained, {} dropped, {} in flight.", counted(counts.issued_ever, "sample"),
      counts.of(storage::sample_state::trained), counts.of(storage::sample_state::dropped),
      in_flight == 0 ? "none" : std::to_string(in_flight));
  if (counts.law_holds()) return where + " Every sample is accounted for.";
  return fmt::format(
      "{} NOT EVERY SAMPLE IS ACCOUNTED FOR: {} were issued, {} are in run.db. Put back a copy of "
      "run.db.",
      where, counts.issued_ever, found);
}

std::string drop_lines(const std::map<std::string, std::int64_t>& reasons) {
  std::string text;
  for (const auto& [reason, count] : most_first(reasons)) {
    const std::string_view words = words_for_drop(reason);
    text += words == reason ? fmt::format("  {} {}\n", count, reason)
                            : fmt::format("  {} {}: {}\n", count, reason, words);
  }
  return text;
}

std::string staleness_words(const storage::age_counts& ages) {
  std::vector<std::string> parts;
  std::int64_t older = 0;
  for (const auto& [age, count] : ages.by_age) {
    if (age > most_ages_told)
      older += count;
    else if (age == 0)
      parts.push_back(fmt::format("{} of the newest weights", count));
    else
      parts.push_back(fmt::format("{} that were {} behind", count, counted(age, "step")));
  }
  if (older > 0)
    parts.push_back(fmt::format("{} that were {} to {} steps behind", older, most_ages_told + 1,
                                ages.by_age.rbegin()->first));
  if (parts.empty()) return {};
  return fmt::format("Samples when a step used them: {}. {} had tokens of several versions.",
                     fmt::join(parts, ", "), ages.mixed == 0 ? "None" : std::to_string(ages.mixed));
}

std::string count_words(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : most_first(counts))
    if (count > 0) parts.push_back(fmt::format("{} {}", count, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

base::json to_json(const ledger_state& state) {
  base::json states = base::json::object();
  for (const auto one : storage::all_sample_states)
    states[std::string(storage::to_string(one))] = state.counts.of(one);
  base::json by_age = base::json::object();
  for (const auto& [age, count] : state.ages.by_age)
    by_age[std::to_string(age)] = count;
  const auto& checkpoint = state.position.checkpoint;
  return {{"incarnation", state.position.incarnation},
          {"version", state.position.version},
          {"checkpoint", checkpoint ? checkpoint->version : -1},
          {"issued", state.counts.issued_ever},
          {"samples", states},
          {"law_holds", state.counts.law_holds()},
          {"dropped", state.drop_reasons},
          {"ages", by_age},
          {"mixed_versions", state.ages.mixed}};
}

}  // namespace quern::actors
