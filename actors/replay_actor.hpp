// The replay actor: carries messages to the head of the run (replay/) and its orders to generators,
// learner and evaluators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/config/run_config.hpp"
#include "actors/decide/role_board.hpp"
#include "actors/monitor.hpp"
#include "actors/protocol.hpp"
#include "actors/replay/replay.hpp"

namespace quern::actors {

/// What the actor needs; everything pointed to outlives it.
struct replay_actor_setup {
  const run_config* config = nullptr;
  std::string config_yaml;
  std::string build;
  std::string device_class;
  std::string weights_folder;
  replay* head = nullptr;
  monitor* watch = nullptr;
  dispatch_ref dispatch;
  supervisor_ref supervisor;
  role_board* roles = nullptr;
  std::string secret;   ///< what processes of the run are given when they are started
  bool spread = false;  ///< roles are on several hosts: groups meet where rank 0 says
};

/// Detached: the ledger blocks on the disk. Events are taken as they come and acted upon together,
/// so that a burst of messages costs one commit.
replay_ref spawn_replay(caf::actor_system& system, replay_actor_setup setup);

}  // namespace quern::actors
