// The steps by which a process puts sandbox layers on itself. The plan is prepared before the fork,
// because between fork and exec of a threaded process nothing may allocate or take a lock.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <linux/filter.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "env/sandbox/child.hpp"

namespace quern::env {

/// While a child's low descriptor numbers are put in order, what they will be is parked from this
/// number on; with room for all that a child is given, a process needs `needed_descriptors`.
inline constexpr int parked_from = 300;
inline constexpr int needed_descriptors = parked_from + 64;

/// What a process of this kind does first, for messages: "mounting the work folder".
struct setup_failure {
  layer which = layer::seccomp;  ///< the layer that the step belongs to
  int error = 0;                 ///< errno
  char step[48] = {};
};

/// Notes the step and its errno; false, to be returned. Async-signal-safe.
bool fail_at(setup_failure& failure, layer which, const char* step);

struct setup_plan {
  /// One thing of the new root: a tree from the host, or a symbolic link where `link` is not empty.
  struct visible {
    std::string path;
    std::string link;
    bool folder = false;
    bool device = false;
    bool ioctl = false;      ///< a device that may be given orders (a GPU's)
    bool processes = false;  ///< /proc: a fresh one, where the system allows that
    int tree = -1;           ///< used by the child only
  };

  layer_set want;
  bool userns_first = false;  ///< the user namespace is the one that gives the right to the others
  bool drop_uid = false;
  uid_t uid = 0;                  ///< foreign user and group
  std::vector<visible> visibles;  ///< parents before what lies in them
  std::string work;               ///< host folder, where there is no mount namespace; empty: none
  std::string work_options;       ///< of the tmpfs, where there is one; empty: no work folder
  std::string program;            ///< empty: no exec follows
  int landlock_abi = 0;
  std::vector<std::pair<int, rlimit>> rlimits;
  std::vector<sock_filter> filter;
  std::vector<kept_fd> descriptors;  ///< standard streams and kept ones, fd -> as
  bool keep_descriptors = false;     ///< leave descriptors as they are: no exec will close any
  bool fixed_layout = false;
  bool with_gpu = false;
  int core = -1;
  /// Where `core` names none: those beside the cores that measure here. None: any.
  std::optional<cpu_set_t> cores;
  int life_fd = -1;    ///< read end; end-of-file: the parent is gone already
  int report_fd = -1;  ///< socket to the parent; closed by exec

  // Filled in by put_on_layers.
  int work_fd = -1;
  int program_fd = -1;
};

/// Builds the plan of `spec` for the layers `want`. `abi` of Landlock. Reads the host's file
/// system (links, kinds), nothing else. `uid` is the foreign uid and gid to use.
base::expected<setup_plan> make_setup_plan(const child_spec& spec, layer_set want, int landlock_abi,
                                           bool exec_follows);

/// Adds what else the new root shows, as child_spec::read_only. Before put_on_layers(). Error
/// (invalid_argument): no absolute path below /.
base::status show_more(setup_plan& plan, const std::vector<std::string>& read_only);

/// The next uid of the range that no system service uses (60578 ..= 61177); children that live side
/// by side get different ones.
uid_t next_foreign_uid();

/// Puts everything on except the system call filter and the new user namespace's maps, which the
/// parent writes. Async-signal-safe. Returns false with `failure` set; the process must then exit.
bool put_on_layers(setup_plan& plan, setup_failure& failure);

/// Loads the filter: the very last step. Async-signal-safe.
bool load_filter(const setup_plan& plan, setup_failure& failure);

}  // namespace quern::env
