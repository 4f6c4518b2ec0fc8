// What a run did in a stretch of time, for files and for people.
#pragma once

#include <string>

#include "actors/decide/bottleneck.hpp"
#include "actors/decide/role_times.hpp"
#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Keys of metrics.jsonl and `quern status --json`: "span_s" (of the run, pauses left out),
/// "tokens_generated", "tokens_per_s", "evaluations", "evaluations_per_h", and "roles": for each
/// role "busy", "idle" and "device_wait", shares of the time of those that were there, which add up
/// to 1 (all 0: nobody was); "waits_for", what the idle share was spent waiting for; "absent", the
/// share of span_s in which nobody was there.
base::ordered_json to_json(const loop_time& time);
/// The reverse, to four digits of a share; members are counted as one. Error: invalid_argument,
/// when a key is missing, as in lines of runs that did not tell yet. Names of later versions are
/// left out.
base::expected<loop_time> read_loop_time(const base::json& line);

/// How long an evaluator waited for its turn on the device, as its verdict says; 0 where it does
/// not.
nanoseconds_t device_wait_of(const std::string& verdict_json);

/// {"kind", "by": [roles], "text"}.
base::ordered_json to_json(const bottleneck& found);
/// That of find_bottleneck.
base::ordered_json bottleneck_json(const loop_time& time);

/// Rates, a line a role, and who holds the run back: for people, indented by two. `of` begins the
/// first line: "last 5:00".
std::string role_table(const loop_time& time, const std::string& of);
/// The same where it is known who holds the run back.
std::string role_table(const loop_time& time, const std::string& of, const bottleneck& held_back);

}  // namespace quern::actors
