// What a forked reference child does: sandbox itself, compile the text, answer the evaluator until
// it leaves.
#pragma once

#include "env/runner/reference_service.hpp"
#include "env/sandbox/cgroup.hpp"
#include "env/sandbox/probe.hpp"

namespace quern::env {

/// Serves one task on `socket` in the calling (freshly forked) process; the status to exit with.
/// `group` may be null.
int serve_reference(int socket, const runner::fork_request& request, const host_facts& facts,
                    const cgroup_leaf* group);

}  // namespace quern::env
