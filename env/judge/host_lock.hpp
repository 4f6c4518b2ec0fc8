// Locks among the processes of this host: flock on files in the temporary folder.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/status.hpp"

namespace quern::env {

/// Opens "quern-NAME" in the temporary folder, not locked yet; every user may.
base::expected<base::unique_fd> open_host_lock(const std::string& name);

/// Takes it; false while another process has it.
bool try_host_lock(const base::unique_fd& lock);

/// Waits for it, at most `seconds`; whether it was taken.
bool wait_for_host_lock(const base::unique_fd& lock, double seconds);
/// The same until `deadline` by `clock`, for a wait of several parts.
bool wait_for_host_lock(const base::unique_fd& lock, base::nanoseconds_t deadline,
                        const base::clock& clock);

}  // namespace quern::env
