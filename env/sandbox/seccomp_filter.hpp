// The system calls that a sandboxed process may make, as a BPF program.
#pragma once

#include <vector>

#include <linux/filter.h>

#include "base/status.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// Allow-list of a profile; see syscall_profile. Calls that are neither allowed nor named as
/// hostile return ENOSYS, so that newer libraries fall back. `threads` matters to candidate and
/// reference; profile gpu always has them.
base::expected<std::vector<sock_filter>> make_syscall_filter(syscall_profile profile, bool threads);

}  // namespace quern::env
