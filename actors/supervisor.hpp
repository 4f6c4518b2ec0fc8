// The supervisor: starts the run's processes, starts them again within limits, and ends the run in
// order: intake closed, evaluations in, checkpoint, processes down.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "actors/config/process_plan.hpp"
#include "actors/decide/device_board.hpp"
#include "actors/decide/plural_policy.hpp"
#include "actors/protocol.hpp"

namespace quern::actors {

/// How a run ended.
struct run_end {
  ending how = ending::stop;
  bool finished = false;  ///< all steps were done, and nobody had asked for an end
  std::string problem;    ///< not empty: it failed, and can be resumed
};

struct supervisor_setup {
  /// What to start and who is asked to drain; filled in before the first `tick`.
  std::shared_ptr<std::vector<process_plan>> processes;
  std::shared_ptr<replay_ref> replay;
  restart_limits restarts;  ///< of roles without which the run cannot go on
  plural_limits evaluators;
  std::string hosts_join_at;  ///< address where others' evaluators may join; empty: nowhere
  /// Is told which evaluators are set aside; may be null.
  std::shared_ptr<device_board> board = {};
  std::shared_ptr<std::promise<run_end>> end;
};

/// Detached: children are bound to the thread that starts them (parent-death signal). A `tick`
/// starts all processes.
supervisor_ref spawn_supervisor(caf::actor_system& system, supervisor_setup setup);

}  // namespace quern::actors
