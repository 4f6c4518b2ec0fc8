// What this host offers for sandboxing, found by trying it, and whether that is enough.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/status.hpp"
#include "env/sandbox/layer.hpp"

namespace quern::env {

/// `required`, the default everywhere: refuse to run untrusted code without the layers that matter.
/// `best_effort`: run with what there is; verdicts tell which layers were on.
enum class sandbox_mode { required, best_effort };

/// Where control groups of children can be made. Empty paths: not at all.
struct cgroup_place {
  int version = 0;               ///< 1, 2, or 0 for none
  std::filesystem::path memory;  ///< folder under which a child's group is made
  std::filesystem::path pids;    ///< the same folder as `memory` in version 2
};

struct host_facts {
  layer_set available;
  int landlock_abi = 0;  ///< 0: none
  bool root =
      false;  ///< effective uid 0 with the right to make namespaces without a user namespace
  cgroup_place cgroups;
  /// Why no child could be tried, whatever this host has: a limit of this process, with what to do.
  /// Empty: there is none.
  std::string obstacle;
  /// For each layer that is missing: what was tried and what the system answered.
  std::map<layer, std::string> why_missing;
};

/// Tries every layer in short-lived children, once per process (about 10 ms; later calls return the
/// first answer). Any thread. Never fails: what cannot be tried is missing.
const host_facts& probe_host();

/// Whether untrusted code may run with these layers. `required` needs seccomp, no network (a
/// network namespace, or seccomp, which refuses sockets), a foreign uid, rlimits, and Landlock or a
/// read-only root. The error (unavailable) names each that is missing, why, and what to do. An
/// obstacle is an error in either mode (exhausted): no child could be made.
base::status admit(const host_facts& facts, sandbox_mode mode);

/// One line a layer, for `quern doctor`: "landlock    yes (ABI 7)", "cgroup2     no: …; do …".
std::string describe(const host_facts& facts);

}  // namespace quern::env
