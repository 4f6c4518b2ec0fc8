// What this host offers for sandboxing, found by trying it, and whether that is enough.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

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
  /// A process that may have so many addresses gets no more (RLIMIT_AS): what bounds memory where
  /// there are no control groups.
  bool address_limit = true;
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

/// What is to run, because not all need the same.
enum class sandboxed_code {
  on_core,  ///< compilers; references and candidates that run on a core
  /// Every process with a GPU. CUDA reserves more addresses than a limit of them could allow, so
  /// only a control group bounds its memory. The runner of a launch plan holds no code of the
  /// candidate's on the host and would need none; but no plan is judged without the reference of
  /// its task, and a reference takes as much memory of the host as its text asks for.
  on_gpu,
  /// Host code of a candidate whose kernels run on a GPU: its process has /proc and device nodes
  /// that can be written.
  host_code_on_gpu
};

/// Whether untrusted code may run with these layers. `required` needs
///
/// | layer | on_core | on_gpu | host_code_on_gpu |
/// |---|---|---|---|
/// | system calls | seccomp | the same | the same |
/// | network | a network namespace, or seccomp, which refuses sockets | the same | the same |
/// | user | a foreign uid | the same | the same |
/// | limits | rlimits | the same | the same |
/// | files | Landlock or a read-only root | the same | Landlock |
/// | memory | a control group, or a limit of addresses that works | a control group | the same |
///
/// The error (unavailable) names each that is missing, why, and what to do. An obstacle is an
/// error in either mode (exhausted): no child could be made.
base::status admit(const host_facts& facts, sandbox_mode mode,
                   sandboxed_code what = sandboxed_code::on_core);

/// What `required` says of one kind of code on this host.
struct admission {
  std::string what;  ///< "sandbox", "with a GPU", "host code"
  base::status admitted;
  std::string if_admitted;
};
/// For `quern doctor`, what is needed first first. `gpu`: this machine has one.
std::vector<admission> admissions(const host_facts& facts, bool gpu);

/// One line a layer, for `quern doctor`: "landlock    yes (ABI 7)", "cgroup2     no: …; do …".
std::string describe(const host_facts& facts);

}  // namespace quern::env
