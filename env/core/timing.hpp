// Times a candidate against its baseline: interleaved windows on one core, fresh content and a
// checked output for every call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>

#include "env/core/candidate_checks.hpp"
#include "env/core/core_process.hpp"
#include "env/core/core_task.hpp"
#include "env/measure/estimate.hpp"

namespace quern::env {

/// The baseline's process, ready to be mapped and planned; owned by the lane.
struct baseline_side {
  /// A reference in a runner that was told already what to run. It is trusted: its failures are
  /// told as its runner says them. `delivers`: outputs are in place after `flush`, not after `run`.
  static baseline_side of_reference(runner_link& link, bool delivers) {
    return {&link, delivers, nullptr, {}};
  }
  /// The task's plain kernel in a process as candidates have: it is loaded and prepared as one, is
  /// compared with the reference, and doubles the tolerance of timed outputs.
  static baseline_side of_plain(core_process& process, std::filesystem::path artefact) {
    return {&process.link(), false, &process, std::move(artefact)};
  }

  runner_link* link = nullptr;
  bool delivers = false;
  core_process* plain = nullptr;  ///< null: a reference
  std::filesystem::path plain_artefact;
};

struct timing_request {
  const core_task* task = nullptr;
  output_limits limit;
  baseline_side baseline;
  core_process* candidate = nullptr;
  candidate_checker* checker = nullptr;  ///< of the candidate; its probe was passed
  /// Each call is a question of its own, and its inputs are there when it is asked for: for
  /// processes that could compute several calls as one. What asking costs is taken off every call.
  bool calls_one_by_one = false;
  /// Makes the content of timed calls; null: it is made of the base content (core_task).
  timed_content_maker* maker = nullptr;
  std::uint64_t order_seed = 0;  ///< of the order of windows
  std::uint64_t first_call = 0;  ///< content of calls below it was used before
  /// Wall seconds of both sides; beyond them making content may take up to four times as long.
  double budget_s = 0.5;
  estimate_limits limits;
};

struct timing_result {
  /// ok, or what was found while timing; infra_error and invalid_reference speak of the baseline.
  finding outcome;
  process_pairs pairs;  ///< the candidate's times with what it did behind its answers
  std::int64_t calls_per_window = 0;
  std::int64_t disturbed = 0;  ///< pairs left out: Linux had let somebody else run meanwhile
  std::uint64_t next_call = 0;
  double baseline_ns = 0;   ///< median for one call
  double handshake_ns = 0;  ///< of a question without calls, taken off every question of both sides
  bool baseline_gone = false;  ///< with infra_error: the baseline's process ended
  double seconds = 0;
};

/// Call it with the core leased (core_lock.hpp): both processes and the calling thread run on that
/// one core, in turns. The clock is this process's; an answer counts when the outputs, looked at at
/// once, are right.
timing_result time_candidate(const timing_request& request);

}  // namespace quern::env
