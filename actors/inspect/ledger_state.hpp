// What the ledger of a run says of all its samples, as values, as words and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

struct ledger_state {
  storage::state_counts counts;
  storage::ledger_position position;
  std::map<std::string, std::int64_t> drop_reasons;
  storage::age_counts ages;
};

/// Steps that the newest checkpoint holds; 0: there is none, such as in stage `search`.
std::int64_t trained_steps(const ledger_state& state);

/// Whether the run has a ledger; false: it has made nothing yet. Error: io, when the ledger is gone
/// or empty and something is there that it knew.
base::expected<bool> has_ledger(const storage::run_paths& paths);

/// All zero where the run has no ledger yet. Errors: those of run.db and of `has_ledger`.
base::expected<ledger_state> read_ledger_state(const storage::run_paths& paths);

/// "288 samples issued: 287 trained, 1 dropped, none in flight. Every sample is accounted for." A
/// count that does not add up is said with both numbers, and what to do.
std::string account_words(const ledger_state& state);

/// Lines "  1 noisy: no attempt could measure it well enough", the most first; empty: none were.
std::string drop_lines(const std::map<std::string, std::int64_t>& reasons);

/// "The steps used 35 samples with the newest weights, 90 that were 1 step behind; 38 had tokens of
/// several versions." Empty where no step used any.
std::string staleness_words(const storage::age_counts& ages);

/// "40 ok, 3 wrong_value", the most first; counts by name.
std::string count_words(const std::map<std::string, std::int64_t>& counts);

/// Key `ledger` of docs/formats/status.md.
base::json to_json(const ledger_state& state);

}  // namespace quern::actors
