// A child process that may do nothing but compute: what it is given (child_spec), who starts it
// (spawner) and the handle by which it is waited for and ended (child).
//
//   auto spawner = quern::env::spawner::create(sandbox_mode::required);
//   child_spec spec;
//   spec.argv = {"/usr/libexec/quern-runner", "3", "4"};
//   spec.keep = {{request_fd, 3}, {memory_fd, 4}};
//   spec.read_only = system_library_folders();
//   auto runner = (*spawner)->spawn(spec);
//   auto end = (*runner)->wait(10.0);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/sandbox/gpu_access.hpp"
#include "env/sandbox/layer.hpp"
#include "env/sandbox/probe.hpp"

namespace quern::env {

/// Held folders (base::temp_folder) for the work of children without a mount namespace.
inline constexpr std::string_view work_folder_prefix = "quern-work";

/// Which system calls are allowed. Each profile is an allow-list. In all of them sockets, tracing,
/// mounts, namespaces, keys, BPF, performance events, io_uring, userfaultfd, new memory files,
/// other processes' memory, signals to others, moving to another core and changing the clock are
/// refused.
enum class syscall_profile {
  candidate,  ///< no new process; a refused call ends the process with SIGSYS, so it is seen
  compiler,   ///< may start processes; a refused call returns EPERM
  reference,  ///< LibTorch in a forked child: no new process, no exec; a refused call returns EPERM
  module,     ///< as reference, for Python, whose libraries make folders and rename files
  /// A process that uses CUDA: threads, memory files, memory policies, and of all ioctls only those
  /// of NVIDIA's driver. What the driver's library tries and does without (sockets, new processes,
  /// scheduling) returns EPERM; what only an attacker tries ends the process with SIGSYS.
  gpu,
  /// Both: CUDA, and a compiler that starts others and loads what they make. What neither needs
  /// returns EPERM.
  gpu_compiler,
  /// As module, with CUDA: Python in a forked child that makes its context under this filter.
  gpu_module
};

/// What one child may use. Zero or less: no such limit.
struct child_limits {
  double wall_s = 30;  ///< from spawn; the spawner kills the tree when it is over, whoever waits
  double cpu_s = 30;   ///< RLIMIT_CPU, rounded up to whole seconds
  /// Control group; without one, RLIMIT_AS, but not with a GPU.
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  std::int64_t file_bytes = 64 << 20;  ///< largest file (RLIMIT_FSIZE)
  std::int64_t work_bytes = 64 << 20;  ///< all files in the work folder (tmpfs size)
  int processes = 1;                   ///< processes and threads together
  int open_files = 64;
};

/// Where a standard stream of the child goes.
struct child_stream {
  enum class kind {
    null,     ///< /dev/null
    capture,  ///< the first `limit` bytes are kept; later writes fail and never block (out, err)
    given     ///< descriptor `fd` of this process, which stays the caller's
  };
  kind stream_kind = kind::null;
  int fd = -1;
  std::int64_t limit = 64 << 10;

  static child_stream none() { return {}; }
  static child_stream captured(std::int64_t bytes = 64 << 10) { return {kind::capture, -1, bytes}; }
  static child_stream from(int descriptor) { return {kind::given, descriptor, 0}; }
};

/// Descriptor `fd` of this process appears as `as` (>= 3) in the child. No other descriptor does.
struct kept_fd {
  int fd = -1;
  int as = 3;
};

struct child_spec {
  /// argv[0] is an absolute host path; the program file itself is always visible to the child.
  std::vector<std::string> argv;
  std::vector<std::string> env;  ///< "NAME=value"; nothing is inherited
  child_stream in, out, err;
  std::vector<kept_fd> keep;
  /// Files and folders that appear, read-only, under the same absolute path; one that is a symbolic
  /// link appears as that link, one that is not there is left out. Besides these the child sees
  /// /dev/null, its program, and its work folder, which is its working directory, private,
  /// writable, and gone with the child.
  std::vector<std::string> read_only;
  syscall_profile profile = syscall_profile::candidate;
  /// Whether its code and stack lie where they lie in every child of this program, if the host
  /// allows that (layout.hpp): for processes whose times are compared.
  bool fixed_layout = false;
  bool threads = false;  ///< profile candidate and reference: whether pthread_create works
  /// The driver's devices, libraries and files, and /proc of the child's own processes, where CUDA
  /// writes the names of its threads. Goes with profile `gpu`. There is then no RLIMIT_AS, because
  /// CUDA reserves more addresses than any machine has memory: only a control group bounds memory,
  /// and a spawner with `required` starts no such child without one.
  std::optional<gpu_access> gpu;
  child_limits limits;
  int core = -1;     ///< the only core it may run on; -1: any but those that measure here
  int life_as = -1;  ///< descriptor that reads end-of-file once this process is gone; -1: none
};

/// The shared libraries of the system and their loader: what nearly every program needs to see.
std::vector<std::string> system_library_folders();

/// How a child ended.
struct child_end {
  enum class kind {
    exited,     ///< `code` is the exit status
    signalled,  ///< `code` is the signal; SIGSYS: it made a forbidden system call
    timed_out,  ///< limits.wall_s was over
    killed      ///< kill() was called
  };
  kind ending = kind::exited;
  int code = 0;
  /// Linux killed in its control group, whose own limit was reached. A kill because the whole
  /// machine was short of memory is a signal like any other.
  bool out_of_memory = false;
  /// timed_out: by the wall clock, with processor time left that it did not use. It stood still or
  /// waited for the processor. Also where the time of its tree is not known (no PID namespace).
  bool stalled = false;
  std::int64_t user_us = 0;  ///< CPU time of the tree
  std::int64_t system_us = 0;
  std::int64_t peak_bytes = 0;  ///< largest resident size of one process

  [[nodiscard]] bool succeeded() const { return ending == kind::exited && code == 0; }
  /// "exit status 1", "SIGSYS (a system call that the sandbox forbids)", "timed out", …
  [[nodiscard]] std::string text() const;
};

/// A running or ended child. Destroying it kills the tree and reaps it. One thread at a time, any
/// thread; kill(), stop() and go_on() may be called beside wait().
class child {
 public:
  ~child();
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// For poll(): readable when the child has ended. Stays owned by this object.
  [[nodiscard]] int pidfd() const;
  [[nodiscard]] int pid() const;  ///< in this process's pid namespace

  /// Waits at most `seconds` (negative: until its end). None: it still runs. Once an end is
  /// returned the whole tree is gone and reaped, and its control groups are removed. The same end
  /// is returned again.
  std::optional<child_end> wait(double seconds);

  /// Kills the whole tree and waits until it is reaped.
  child_end kill();

  /// Stops every thread of the program (SIGSTOP) and waits until they stand: one that is inside a
  /// system call ends it first; one that does not within ten seconds is killed. A child that has
  /// ended stands still. Its wall clock goes on. From one thread at a time, as go_on().
  void stop();
  /// Lets a stopped child go on.
  void go_on();

  /// The layers that were really put on, as the child reported just before its program started.
  [[nodiscard]] layer_set layers() const;

  /// Folder descriptor of the child's private work folder; stays valid until this object is gone,
  /// also after the child's end: put files in before it reads them, take results out afterwards.
  /// -1 where there is none (work_bytes is 0).
  [[nodiscard]] int work_folder() const;

  /// What was captured so far (at most the stream's limit); empty for streams not captured.
  [[nodiscard]] std::string captured_out() const;
  [[nodiscard]] std::string captured_err() const;

  struct state;
  explicit child(std::shared_ptr<state> s);

 private:
  std::shared_ptr<state> state_;
};

/// Starts children from one thread that lives as long as the spawner, because Linux ties the
/// parent-death signal to the thread that forked; also ends them when their wall clock is over.
/// Children die with this process, however it ends. Thread-safe.
class spawner {
 public:
  /// Refuses (unavailable) as admit() does. Removes control groups left by processes that are gone.
  static base::expected<std::unique_ptr<spawner>> create(sandbox_mode mode);
  /// The same with some layers turned off, to see what the others do alone.
  static base::expected<std::unique_ptr<spawner>> create(sandbox_mode mode, layer_set allowed);

  ~spawner();  ///< kills and reaps what still runs
  spawner(const spawner&) = delete;
  spawner& operator=(const spawner&) = delete;

  /// Returns when the child's program has been started (exec succeeded) or with the step that
  /// failed. About 3 ms. Refuses (unavailable) a child with a GPU as admit() does.
  base::expected<std::unique_ptr<child>> spawn(const child_spec& spec);

  /// Layers that children of this spawner get.
  [[nodiscard]] layer_set layers() const;

  struct state;

 private:
  explicit spawner(std::shared_ptr<state> s);
  std::shared_ptr<state> state_;
};

}  // namespace quern::env
