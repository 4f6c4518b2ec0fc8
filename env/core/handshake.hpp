// What a question and its answer cost where nothing is computed.
#pragma once

#include "env/runner/link.hpp"

namespace quern::env {

struct handshake {
  double wall_ns = 0, cpu_ns = 0;  ///< medians; 0: the process did not answer
};

/// Asks a process, for which memory and plan are there, for no calls, some times. Call it with the
/// core leased.
handshake handshake_of(runner_link& link, question_limits limits);

}  // namespace quern::env
