// The file system that a sandboxed process sees: a new root with read-only views of what it may
// read, and a private work folder. Async-signal-safe.
#pragma once

#include "env/sandbox/setup.hpp"

namespace quern::env {

/// Where the work folder lies inside the new root.
inline constexpr const char* inner_work_folder = "/quern-work";

/// Replaces the root. Needs a mount namespace of its own and the right to mount in it. Sets
/// plan.work_fd. The caller changes directory afterwards.
bool enter_new_root(setup_plan& plan, setup_failure& failure);

}  // namespace quern::env
