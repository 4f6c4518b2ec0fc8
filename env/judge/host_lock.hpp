// Locks among the processes of this host: flock on files in one folder, whatever TMPDIR says. Those
// of GPUs: device_lock.hpp.
#pragma once

#include <filesystem>
#include <functional>
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

/// Takes it; false while another process has it.
bool try_host_lock(const base::unique_fd& lock);

/// By word: a child that is being cloned has the descriptor, too, until it begins its program, so
/// that closing it here would not give the lock back.
void give_back_host_lock(const base::unique_fd& lock);

/// Waits for it, at most `seconds` or until the calling thread's base::thread_deadline; whether it
/// was taken.
bool wait_for_host_lock(const base::unique_fd& lock, double seconds);
/// The same until `deadline` by `clock`, for a lock of any kind that `taken` tries to take.
bool wait_for_lock(const std::function<bool()>& taken, base::nanoseconds_t deadline,
                   const base::clock& clock);

}  // namespace quern::env
