// The time-outs of the evaluator hosts' protocol, all in one place. What a run chooses is not here:
// actors.heartbeat_s and actors.lease_s reach a host by WELCOME.
#pragma once

#include "base/clock.hpp"

namespace quern::env {

/// Between two heartbeats of a host until WELCOME names the interval.
inline constexpr base::nanoseconds_t first_heartbeat = 1'000'000'000;

/// Without a frame from the other side for so many of its heartbeats, it is gone. Each side has its
/// own clock.
inline constexpr int missed_heartbeats = 5;

/// A host that leaves waits so long for its last frames to go, if the gateway still reads.
inline constexpr int goodbye_ms = 500;

/// A gateway that starts asks its own door for keys (curve.hpp), and waits so long for an answer.
inline constexpr long proof_ms = 1000;

}  // namespace quern::env
