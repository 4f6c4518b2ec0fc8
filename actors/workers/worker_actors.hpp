// The actors of the generator's and the learner's process. Each runs in a thread of its own,
// because LibTorch's settings are thread-local and a step must not hold up other actors; introduces
// itself to control; and ends when control is gone or refuses it, and with it the process.
#pragma once

#include <atomic>
#include <memory>

#include "actors/config/run_config.hpp"
#include "actors/node.hpp"
#include "actors/protocol.hpp"
#include "actors/workers/own_address.hpp"

namespace quern::actors {

/// What the process is to end with, once all actors are done: 0 where control has ended it.
using worker_code = std::shared_ptr<std::atomic<int>>;

/// Feeds a generation_worker. Messages are read between two decode steps, so that new weights are
/// installed and work is cancelled within one.
worker_code spawn_generator(node& self, const orchestrator_ref& control, const hello& introduction,
                            const run_config& config, const own_address& here);

/// Feeds a learning_worker.
worker_code spawn_learner(node& self, const orchestrator_ref& control, const hello& introduction,
                          const run_config& config, const own_address& here);

}  // namespace quern::actors
