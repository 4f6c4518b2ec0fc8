// How much memory a process may have on this machine: what is built in, or what its control groups
// allow, if that is less.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace quern::base {

struct host_memory {
  std::int64_t bytes = 0;
  std::string limit;  ///< file of the control group that sets `bytes`; empty: all that is built in
};

/// Of this process. Limits of all control groups around it count, of version 1 and 2, as far as
/// they can be seen from here.
host_memory own_host_memory();

/// The same, where `physical` bytes are built in, the groups are those of `listing`
/// (/proc/self/cgroup) and their hierarchies are mounted below `mounted` (/sys/fs/cgroup).
host_memory host_memory_within(std::int64_t physical, const std::filesystem::path& listing,
                               const std::filesystem::path& mounted);

}  // namespace quern::base
