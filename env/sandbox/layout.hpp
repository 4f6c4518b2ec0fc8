// Processes whose code, stack and libraries lie at the same addresses every time. Where they lie is
// worth up to 50 % of a call on some processors, the same for as long as a process lives.
#pragma once

namespace quern::env {

/// What this process executes next has one layout: no addresses are drawn. False where the host
/// does not allow it (seccomp profiles of containers). Async-signal-safe.
bool ask_for_fixed_layout();

/// Starts this program over in the fixed layout, with the same arguments, unless it has it already
/// or the host does not allow it: then it returns. To be called in main() before anything is opened
/// or a thread is started.
void start_over_in_fixed_layout(char* const* argv);

}  // namespace quern::env
