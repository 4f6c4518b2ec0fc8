// Sandboxing the calling process itself: for children forked from a warm parent (reference
// runners).
#pragma once

#include "base/status.hpp"
#include "env/sandbox/cgroup.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// Puts the layers on that a running process can still put on: mount, net, ipc, uts (and user)
/// namespaces, read-only root of spec.read_only, work folder as working directory, foreign uid,
/// rlimits, no new privileges, Landlock, seccomp, parent-death signal, core; closes descriptors
/// that spec.keep does not name (their numbers stay, `as` is ignored; 0, 1, 2 stay as they are).
/// There is no pid namespace: the parent kills by pid and seccomp forbids signals and new
/// processes. argv, env, in, out, err and limits.wall_s are ignored. Libraries that are loaded stay
/// loaded; others cannot be loaded afterwards unless read_only shows them.
///
/// Call it right after fork(), before any thread exists and before untrusted data are read.
/// `facts` come from the parent's probe_host() (probing forks, so the warm parent does it once).
/// `group` (may be null): made by the parent, which also destroys it after reaping this process.
/// Returns the layers that are on. After an error the process is half sandboxed: it must exit.
base::expected<layer_set> apply_sandbox_in_this_process(const child_spec& spec,
                                                        const host_facts& facts, sandbox_mode mode,
                                                        const cgroup_leaf* group);

}  // namespace quern::env
