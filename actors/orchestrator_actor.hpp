// The orchestrator actor: carries messages to the orchestrator (orchestrator/head_policy) and its
// orders to generators, learner and evaluators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/config/run_config.hpp"
#include "actors/decide/role_board.hpp"
#include "actors/monitor.hpp"
#include "actors/orchestrator/head_policy.hpp"
#include "actors/orchestrator/orchestrator.hpp"
#include "actors/protocol.hpp"

namespace quern::actors {

/// What the actor needs, whatever the run is made for; everything pointed to outlives it.
struct head_actor_setup {
  std::string config_yaml;
  std::string build;
  std::string weights_folder;
  dispatch_ref dispatch;
  supervisor_ref supervisor;
  role_board* roles = nullptr;
  std::string secret;   ///< what processes of the run are given when they are started
  bool spread = false;  ///< roles are on several hosts: groups meet where rank 0 says
};

/// Detached: a policy may block on the disk. Events are taken as they come and acted upon together,
/// so that a burst of messages costs one commit.
orchestrator_ref spawn_head(caf::actor_system& system, head_actor_setup setup,
                            std::unique_ptr<head_policy> policy);

/// What a run that trains or searches needs beside that.
struct orchestrator_actor_setup {
  const run_config* config = nullptr;
  std::string config_yaml;
  std::string build;
  std::string device_class;
  std::string weights_folder;
  orchestrator* head = nullptr;
  monitor* watch = nullptr;
  dispatch_ref dispatch;
  supervisor_ref supervisor;
  role_board* roles = nullptr;
  std::string secret;   ///< what processes of the run are given when they are started
  bool spread = false;  ///< roles are on several hosts: groups meet where rank 0 says
};

/// As spawn_head, with a run_head.
orchestrator_ref spawn_orchestrator(caf::actor_system& system, orchestrator_actor_setup setup);

}  // namespace quern::actors
