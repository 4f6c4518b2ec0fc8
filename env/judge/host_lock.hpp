// Locks among the processes of this host: flock on files in one folder, whatever TMPDIR says, and
// for a GPU on its device node.
#pragma once

#include <filesystem>
#include <string>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/status.hpp"

namespace quern::env {

/// Where the files are: /run/lock where every user may make files there (Debian, Ubuntu), else
/// /tmp. Not the temporary folder of the environment: two processes with different ones would both
/// have the device.
std::filesystem::path host_lock_folder();

/// Opens "quern-NAME" in that folder, not locked yet; every user may.
base::expected<base::unique_fd> open_host_lock(const std::string& name);

/// The lock of a GPU: its device node, which containers of one host may share where they share no
/// folder. Where there is none, as for a device that the driver does not list, the file
/// "gpu-BUS_ID.busy". A sandboxed candidate sees the node, but its filter has no flock.
base::expected<base::unique_fd> open_device_lock(const std::string& bus_id);
/// The same with the node given; empty: none.
base::expected<base::unique_fd> open_device_lock(const std::string& bus_id,
                                                 const std::filesystem::path& node);

/// Takes it; false while another process has it.
bool try_host_lock(const base::unique_fd& lock);

/// Waits for it, at most `seconds`; whether it was taken.
bool wait_for_host_lock(const base::unique_fd& lock, double seconds);
/// The same until `deadline` by `clock`, for a wait of several parts.
bool wait_for_host_lock(const base::unique_fd& lock, base::nanoseconds_t deadline,
                        const base::clock& clock);

}  // namespace quern::env
