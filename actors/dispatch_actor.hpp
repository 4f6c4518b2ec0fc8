// The dispatch actor: carries jobs to evaluator hosts and verdicts back. Who gets what, leases and
// retries are decided by the evaluation scheduler; the sockets are the gateway's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "actors/config/run_config.hpp"
#include "actors/decide/device_board.hpp"
#include "actors/decide/evaluation_scheduler.hpp"
#include "actors/decide/role_board.hpp"
#include "actors/defaults.hpp"
#include "actors/gateway.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "actors/protocol.hpp"

namespace quern::actors {

struct dispatch_setup {
  const run_config* config = nullptr;  ///< outlives the actor
  const task_book* tasks = nullptr;    ///< likewise
  std::string device_class;
  incarnation_id incarnation = 0;
  gateway_options gateway;
  /// Jobs that may wait for an evaluator at once; whoever sends more ends the run.
  std::size_t queue = defaults::evaluation_queue;
  /// What is known of hosts and devices, for others to read; may be null.
  std::shared_ptr<device_board> board = {};
  /// Is told which devices have a job; may be null.
  std::shared_ptr<role_board> roles = {};
};

/// Where verdicts and news of hosts go; set before the first process is started.
struct dispatch_sink {
  orchestrator_ref orchestrator;
  supervisor_ref supervisor;  ///< is told which hosts answer
  /// Filled in by spawn_dispatch: where hosts connect, with real ports.
  std::vector<std::string> endpoints;
};

/// Starts the gateway and the actor. `sink` is read when a verdict is passed on and outlives the
/// actor. Errors: the gateway's.
base::expected<dispatch_ref> spawn_dispatch(caf::actor_system& system, dispatch_setup setup,
                                            std::shared_ptr<dispatch_sink> sink);

}  // namespace quern::actors
