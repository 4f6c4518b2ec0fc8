// What a host has before and after candidates were judged on it: processes, files in the folders
// for temporary ones, memory of a device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace quern::tools {

struct host_process {
  std::string name, start;  ///< as /proc tells them
  std::string parents;      ///< " < name < name", from its own parent up
  bool ours = false;        ///< a descendant of this process
  bool others = false;      ///< a descendant of another evaluator that is at work
  bool is_zombie = false;   ///< has ended, and its parent has not reaped it
};

/// As NVML tells; what it does not is left out.
struct device_use {
  std::optional<std::uint64_t> bytes;  ///< by everybody
  std::optional<std::uint32_t> processes;
};

/// `bus_id` of the device; empty: none.
device_use look_at_device(const std::string& bus_id);

/// Files that this process has open, by what they are: a path, "socket", "pipe", ….
std::map<std::string, int> look_at_descriptors();

struct host_snapshot {
  std::map<int, host_process> processes;
  std::map<std::string, int> descriptors;
  std::set<std::string> files;  ///< below /tmp, /var/tmp, /dev/shm, $TMPDIR, $XDG_RUNTIME_DIR
  device_use device;
};

/// What cannot be read is left out.
host_snapshot look_at_host(const std::string& bus_id);

struct host_leftovers {
  /// Descendants of this process, and what has a name of ours and nobody at work above it.
  std::vector<std::string> processes;
  std::vector<std::string> foreign_processes;  ///< other new ones: for people to look at
  std::vector<std::string> files;
  std::vector<std::string> descriptors;  ///< of this process
  std::int64_t device_bytes = 0;         ///< more than before; 0 where nothing is known
};

host_leftovers left_behind(const host_snapshot& before, const host_snapshot& after);

}  // namespace quern::tools
