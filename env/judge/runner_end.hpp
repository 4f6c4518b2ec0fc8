// What the end of a candidate's process says of the candidate, where it came instead of an answer.
#pragma once

#include <string_view>

#include "env/sandbox/child.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// Reasons of a `runtime_error` whose process ended without having told of a fault.
namespace end_reason {
inline constexpr std::string_view ended = "ended";                    ///< by itself: exit, abort
inline constexpr std::string_view closed_channel = "closed_channel";  ///< it closed its socket
inline constexpr std::string_view forbidden_call = "forbidden_call";  ///< by the sandbox: SIGSYS
}  // namespace end_reason

/// `oom` where its control group was full; else `runtime_error` with a reason, none after another
/// signal. Doubtful where somebody else may have ended it (env/sandbox/outside_hand.hpp).
finding ended_without_answer(const child_end& end);

}  // namespace quern::env
