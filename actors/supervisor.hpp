// The supervisor of every run: starts the processes of its roles, starts them again as the roles
// say, and ends the run in order: intake closed, evaluations in, checkpoint, processes down.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "actors/decide/device_board.hpp"
#include "actors/decide/plural_policy.hpp"
#include "actors/protocol.hpp"
#include "actors/role.hpp"

namespace quern::actors {

/// How a run ended.
struct run_end {
  ending ending_kind = ending::stop;
  bool finished = false;  ///< all steps were done, and nobody had asked for an end
  std::string problem;    ///< not empty: it failed, and can be resumed
};

struct supervisor_setup {
  /// What the run is made of; filled in before the first `tick`. Roles whose processes are started
  /// together come one after the other, each when the one before is done; with the last one the run
  /// has finished. All others are there from the start to the end.
  std::shared_ptr<std::vector<role>> roles;
  /// Who is asked to drain, and whether a process has said hello; filled in likewise. Null: nobody.
  std::shared_ptr<orchestrator_ref> orchestrator;
  restart_limits restarts;    ///< of processes that are started again alone
  plural_limits evaluators;   ///< of those that are set aside
  std::string hosts_join_at;  ///< address where others' evaluators may join; empty: nowhere
  /// Is told which evaluators are set aside; may be null.
  std::shared_ptr<device_board> board = {};
  std::shared_ptr<std::promise<run_end>> end;
};

/// Detached: children are bound to the thread that starts them (parent-death signal). A `tick`
/// starts all processes.
supervisor_ref spawn_supervisor(caf::actor_system& system, supervisor_setup setup);

}  // namespace quern::actors
