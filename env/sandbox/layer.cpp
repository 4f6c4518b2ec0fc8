// Names of sandbox layers, and what to do about a missing one.
#include "env/sandbox/layer.hpp"

#include <array>

namespace quern::env {
namespace {

struct description {
  std::string_view name;
  std::string_view advice;
};

constexpr std::string_view run_as_root =
    "run as root, or allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1; on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0)";

constexpr std::array<description, layer_count> table{{
    {"userns", run_as_root},
    {"mountns", run_as_root},
    {"pidns", run_as_root},
    {"netns", run_as_root},
    {"ipcns", run_as_root},
    {"utsns", run_as_root},
    {"read_only_root", "run as root or allow user namespaces, on Linux 5.12 or newer"},
    {"landlock", "use Linux 5.13 or newer with Landlock and boot it with lsm=landlock,…"},
    {"seccomp", "use a Linux with CONFIG_SECCOMP_FILTER"},
    {"foreign_uid",
     "install uidmap and have a range in /etc/subuid and /etc/subgid, or run as root"},
    {"rlimits", "allow setrlimit(2)"},
    {"cgroup1", "mount the memory and pids controllers writable"},
    {"cgroup2", "run as root, or under systemd-run --user --scope -p Delegate=yes"},
}};

const description& entry(layer which) {
  return table[static_cast<std::size_t>(which)];
}

}  // namespace

std::string_view name_of(layer which) {
  return entry(which).name;
}

std::string_view advice_for(layer which) {
  return entry(which).advice;
}

std::vector<std::string> layer_set::names() const {
  std::vector<std::string> result;
  for (int i = 0; i < layer_count; ++i)
    if (has(static_cast<layer>(i))) result.emplace_back(name_of(static_cast<layer>(i)));
  return result;
}

}  // namespace quern::env
