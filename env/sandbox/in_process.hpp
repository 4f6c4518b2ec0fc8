// Sandboxing the calling process itself: for children forked from a warm parent (reference
// runners, Python processes).
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/sandbox/cgroup.hpp"
#include "env/sandbox/child.hpp"
#include "env/sandbox/setup.hpp"

namespace quern::env {

/// What a process is told only when it is to be used: the rest of its child_spec.
struct late_spec {
  std::vector<std::string> read_only;  ///< shown beside those of the spec
  std::vector<kept_fd> keep;           ///< these alone stay open
  int core = -1;                       ///< as child_spec::core
};

/// The sandbox of apply_sandbox_in_this_process() in two steps, for a process that waits between
/// them until somebody needs it. Between them the process is not locked in: it may run nothing that
/// is untrusted and read no untrusted data. One process begins once.
class sandbox_entry {
 public:
  /// Joins the group and new namespaces, makes the filter, closes what spec.keep does not name, and
  /// has the process killed when its parent ends. These take most of the time: Linux moves a
  /// process into a control group in some 10 ms. Arguments and errors as
  /// apply_sandbox_in_this_process(); spec.core is ignored.
  static base::expected<sandbox_entry> begin(const child_spec& spec, const host_facts& facts,
                                             sandbox_mode mode, const cgroup_leaf* group);

  /// Puts on all that is left: root, work folder, user, limits, Landlock, filter. Returns the
  /// layers that are on. After an error the process must exit.
  base::expected<layer_set> complete(const late_spec& late);

 private:
  explicit sandbox_entry(setup_plan plan) : plan_(std::move(plan)) {}
  setup_plan plan_;
};

/// Both steps at once: puts the layers on that a running process can still put on. These are mount,
/// net, ipc, uts (and user) namespaces, a read-only root of spec.read_only, the work folder as
/// working directory and a foreign uid. Also rlimits, no new privileges, Landlock, seccomp, the
/// parent-death signal and the core. Closes descriptors that spec.keep does not name (their numbers
/// stay, `as` is ignored; 0, 1, 2 stay as they are). There is no pid namespace: the parent kills by
/// pid and seccomp forbids signals and new processes. argv, env, in, out, err and limits.wall_s are
/// ignored. Libraries that are loaded stay loaded; others cannot be loaded afterwards unless
/// read_only shows them.
///
/// With spec.gpu a context is made behind it: its threads have the layers of the thread that starts
/// them, and layers cannot be put on the threads of others.
///
/// Call it right after fork(), before any thread exists and before untrusted data are read.
/// `facts` come from the parent's probe_host() (probing forks, so the warm parent does it once).
/// `group` (may be null): made by the parent, which also destroys it after reaping this process.
/// Returns the layers that are on. After an error the process is half sandboxed: it must exit.
base::expected<layer_set> apply_sandbox_in_this_process(const child_spec& spec,
                                                        const host_facts& facts, sandbox_mode mode,
                                                        const cgroup_leaf* group);

}  // namespace quern::env
