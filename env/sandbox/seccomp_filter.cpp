// The system calls that a sandboxed process may make, as a BPF program made by libseccomp.
#include "env/sandbox/seccomp_filter.hpp"

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include <fcntl.h>
#include <linux/prctl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::env {
namespace {

// What any program does that computes and talks through descriptors it was given.
// clang-format off
constexpr const char* common_calls[] = {
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "lseek",
    "close", "close_range", "dup", "dup2", "dup3", "pipe", "pipe2", "eventfd2", "fstat",
    "newfstatat", "stat", "lstat", "fstatfs", "statfs", "statx", "access", "faccessat",
    "faccessat2", "readlink", "readlinkat", "open", "openat", "getdents64", "getcwd", "umask",
    "unlink", "unlinkat", "ftruncate", "fsync", "fdatasync", "fadvise64", "poll", "ppoll", "select",
    "pselect6", "sendmsg", "recvmsg", "sendto", "recvfrom", "shutdown", "mmap", "munmap",
    "mprotect", "mremap", "madvise", "msync", "mincore", "brk", "futex", "futex_waitv",
    "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "getcpu",
    "membarrier", "rseq", "set_robust_list", "set_tid_address", "arch_prctl", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "rt_sigpending", "sigaltstack",
    "restart_syscall", "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep",
    "gettimeofday", "time", "times", "getrandom", "getpid", "gettid", "getppid", "getpgrp",
    "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "uname",
    "sysinfo", "getrlimit", "getrusage", "exit", "exit_group", "execve", "execveat", "seccomp"};
// clang-format on

// What Python's own modules do with files and folders, where any can be written (tempfile, shutil).
// clang-format off
constexpr const char* folder_calls[] = {
    "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "chmod", "fchmod", "fchmodat",
    "utimensat", "truncate", "fallocate", "flock"};
// clang-format on

// clang-format off
constexpr const char* compiler_calls[] = {
    "fork", "vfork", "wait4", "waitid", "rename", "renameat", "renameat2", "mkdir", "mkdirat",
    "rmdir", "link", "linkat", "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "utimensat",
    "utime", "truncate", "fallocate", "chdir", "fchdir", "setrlimit", "alarm", "setitimer",
    "getitimer", "getxattr", "lgetxattr", "flock"};
// clang-format on

// What only somebody does who wants out, or wants to disturb. A candidate that tries ends with
// SIGSYS, so that the attempt is a verdict and not an error code that it can shrug off.
// clang-format off
constexpr const char* hostile_calls[] = {
    "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "setsockopt", "fork",
    "vfork", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
    "process_mrelease", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "kcmp", "kill", "tkill",
    "rt_sigqueueinfo", "rt_tgsigqueueinfo", "mount", "umount2", "pivot_root", "chroot",
    "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "swapon",
    "swapoff", "unshare", "setns", "bpf", "perf_event_open", "keyctl", "add_key", "request_key",
    "userfaultfd", "memfd_create", "memfd_secret", "remap_file_pages", "io_uring_setup",
    "io_uring_enter", "io_uring_register", "io_setup", "io_submit", "open_by_handle_at",
    "name_to_handle_at", "clock_settime", "settimeofday", "adjtimex", "clock_adjtime",
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "sethostname", "setdomainname", "iopl", "ioperm", "modify_ldt", "personality", "acct",
    "quotactl", "syslog", "vhangup", "mknod", "mknodat", "setuid", "setgid", "setreuid", "setregid",
    "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups", "capset", "setsid", "setpgid",
    "sched_setaffinity", "sched_setscheduler", "sched_setattr", "sched_setparam", "setpriority",
    "ioprio_set", "shmget", "shmat", "shmctl", "semget", "semop", "msgget", "msgsnd", "mq_open",
    "inotify_init1", "fanotify_init", "move_pages", "migrate_pages", "lookup_dcookie",
    "timer_create"};
// clang-format on

// What CUDA's user side does beyond computing (its memory files and local sockets carry what
// threads and the driver share: refused, cuInit fails with error 304), and questions that libraries
// ask about themselves. Local sockets lead nowhere: no socket of the host is visible, and those
// without a name in the file system end at the network namespace. Landlock takes rights away only:
// the runner narrows its own before it loads a candidate (env/runner/file_lock.hpp).
// clang-format off
constexpr const char* gpu_calls[] = {
    "memfd_create", "fallocate", "get_mempolicy", "set_mempolicy", "mbind", "mlock", "mlock2",
    "munlock", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "timerfd_create",
    "timerfd_settime", "timerfd_gettime", "sched_get_priority_max", "sched_get_priority_min",
    "sched_getattr", "sched_rr_get_interval", "getpriority", "getsid", "getpgid", "capget",
    "getxattr", "bind", "listen", "accept", "accept4", "connect", "setsockopt", "getsockopt",
    "getsockname", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"};
// clang-format on

// Hostile elsewhere; here the driver's library may try them (MPS, its helper that makes device
// nodes, priorities of its threads) and goes on without.
// clang-format off
constexpr const char* refused_to_gpu_calls[] = {
    "fork", "vfork", "kill", "tkill", "mknod", "mknodat", "setsid", "setpgid",
    "sched_setaffinity", "sched_setscheduler", "sched_setattr", "sched_setparam", "setpriority",
    "ioprio_set", "shmget", "shmat", "shmctl", "move_pages", "timer_create", "inotify_init1",
    "personality", "pidfd_open", "kcmp", "chmod", "fchmod", "fchmodat"};

// Of local sockets only; of others EPERM.
constexpr const char* local_socket_calls[] = {"socket", "socketpair"};
// clang-format on

using filter_context = std::unique_ptr<void, decltype(&seccomp_release)>;

class builder {
 public:
  explicit builder(std::uint32_t fallback)
      : fallback_(fallback), context_(seccomp_init(fallback), &seccomp_release) {
    if (!context_) return;
    seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
    // The process sets no_new_privs itself; the filter is loaded by hand in the child.
    seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_NNP, 0);
  }

  /// Names that this architecture or this libseccomp does not know are skipped: the fallback holds.
  void all(std::uint32_t action, std::span<const char* const> names) {
    for (const char* name : names) {
      const int number = seccomp_syscall_resolve_name(name);
      if (number >= 0 && action != fallback_)
        check(seccomp_rule_add_array(context_.get(), action, number, 0, nullptr));
    }
  }
  void when(std::uint32_t action, const char* name, scmp_arg_cmp condition) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number >= 0) check(seccomp_rule_add_array(context_.get(), action, number, 1, &condition));
  }

  /// Allows a call where both hold.
  void when_both(const char* name, scmp_arg_cmp first, scmp_arg_cmp second) {
    const scmp_arg_cmp conditions[] = {first, second};
    const int number = seccomp_syscall_resolve_name(name);
    if (number >= 0)
      check(seccomp_rule_add_array(context_.get(), SCMP_ACT_ALLOW, number, 2, conditions));
  }

  base::expected<std::vector<sock_filter>> finish() {
    if (!context_ || error_ != 0)
      return base::fail(base::errc::internal, "libseccomp refused a rule: {}",
                        std::strerror(error_));
    // A pipe, because a candidate's runner may not make memory files; a program of at most 4096
    // instructions fits into it.
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return base::fail_errno("making a pipe for the system call filter");
    const base::unique_fd out(ends[0]);
    base::unique_fd in(ends[1]);
    if (const int rc = seccomp_export_bpf(context_.get(), in.get()); rc != 0)
      return base::fail(base::errc::internal, "exporting the system call filter: {}",
                        std::strerror(-rc));
    in.reset();
    std::vector<sock_filter> program(4096);
    const ssize_t bytes = read(out.get(), program.data(), program.size() * sizeof(sock_filter));
    if (bytes <= 0) return base::fail_errno("reading the system call filter back");
    program.resize(static_cast<std::size_t>(bytes) / sizeof(sock_filter));
    return program;
  }

 private:
  void check(int rc) {
    if (rc != 0 && error_ == 0) error_ = -rc;
  }
  std::uint32_t fallback_;
  filter_context context_;
  int error_ = 0;
};

constexpr std::uint64_t namespace_flags = CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID |
                                          CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                          CLONE_NEWCGROUP;

// clone3 takes its flags in memory, where a filter cannot look: it stays ENOSYS and libc uses
// clone.
void add_clone_rules(builder& rules, bool processes, bool threads, std::uint32_t refuse) {
  if (processes) {
    rules.when(SCMP_ACT_ALLOW, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, namespace_flags, 0));
    return;
  }
  rules.when(refuse, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  rules.when(threads ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EAGAIN), "clone",
             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

// Linux looks at 32 bits of an ioctl's number. The driver's own have the type 'F'; those of
// its unified memory (nvidia-uvm) are small bare numbers and 0x30000001, 0x30000002. All others,
// those of terminals among them, are ENOSYS.
void add_nvidia_orders(builder& rules) {
  struct family {
    std::uint64_t mask, value;
  };
  constexpr family families[] = {{0x0000FF00, 0x4600}, {0xFFFFFF00, 0}, {0xFFFFFFF0, 0x30000000}};
  for (const family& item : families)
    rules.when(SCMP_ACT_ALLOW, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, item.mask, item.value));
}

}  // namespace

namespace {

base::expected<std::vector<sock_filter>> build_syscall_filter(syscall_profile profile,
                                                              bool threads) {
  builder rules(SCMP_ACT_ERRNO(ENOSYS));
  const bool gpu_compiler = profile == syscall_profile::gpu_compiler;
  const bool compiler = profile == syscall_profile::compiler || gpu_compiler;
  const std::uint32_t refuse =
      profile == syscall_profile::candidate || profile == syscall_profile::gpu
          ? SCMP_ACT_KILL_PROCESS
          : SCMP_ACT_ERRNO(EPERM);

  const bool gpu_module = profile == syscall_profile::gpu_module;
  const bool gpu = profile == syscall_profile::gpu || gpu_compiler || gpu_module;
  threads = threads || gpu;

  std::vector<const char*> allowed(std::begin(common_calls), std::end(common_calls));
  if (gpu) allowed.insert(allowed.end(), std::begin(gpu_calls), std::end(gpu_calls));
  if (compiler) allowed.insert(allowed.end(), std::begin(compiler_calls), std::end(compiler_calls));
  const bool module = profile == syscall_profile::module || gpu_module;
  if (module) allowed.insert(allowed.end(), std::begin(folder_calls), std::end(folder_calls));
  if (module || profile == syscall_profile::reference)
    std::erase_if(allowed, [](const char* name) { return std::strncmp(name, "execve", 6) == 0; });
  rules.all(SCMP_ACT_ALLOW, allowed);

  std::vector<const char*> refused(std::begin(hostile_calls), std::end(hostile_calls));
  if (compiler)
    std::erase_if(refused, [](const char* name) {
      return std::strcmp(name, "fork") == 0 || std::strcmp(name, "vfork") == 0;
    });
  if (gpu) {
    const auto take_out = [&](std::span<const char* const> names) {
      for (const char* name : names)
        std::erase_if(refused, [&](const char* item) { return std::strcmp(item, name) == 0; });
    };
    take_out(gpu_calls);
    take_out(refused_to_gpu_calls);
    take_out(local_socket_calls);
    for (const char* name : local_socket_calls) {
      rules.when(SCMP_ACT_ALLOW, name, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
      rules.when(SCMP_ACT_ERRNO(EPERM), name, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    }
    std::vector<const char*> softly(std::begin(refused_to_gpu_calls),
                                    std::end(refused_to_gpu_calls));
    const auto take_back = [&](std::span<const char* const> names) {
      for (const char* name : names)
        std::erase_if(softly, [&](const char* item) { return std::strcmp(item, name) == 0; });
    };
    if (compiler) take_back(compiler_calls);
    if (module) take_back(folder_calls);
    rules.all(SCMP_ACT_ERRNO(EPERM), softly);
  }
  rules.all(refuse, refused);
  // abort() sends a signal to its own thread and, when that fails, stops by a fault: no harm done.
  const char* const own_signal[] = {"tgkill"};
  rules.all(SCMP_ACT_ERRNO(EPERM), own_signal);

  add_clone_rules(rules, compiler, threads, gpu ? SCMP_ACT_ERRNO(EPERM) : refuse);
  if (gpu) {
    add_nvidia_orders(rules);
    // Python takes "no terminal" for an answer and no other.
    if (gpu_compiler || gpu_module)
      for (const unsigned long order : {TCGETS, TIOCGWINSZ, FIOCLEX, FIONCLEX})
        rules.when(SCMP_ACT_ERRNO(ENOTTY), "ioctl", SCMP_A1(SCMP_CMP_EQ, order));
  } else {
    // No terminal here: isatty() is false.
    const char* const device_control[] = {"ioctl"};
    rules.all(SCMP_ACT_ERRNO(ENOTTY), device_control);
  }
  for (const int command :
       {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_GET_SEALS})
    rules.when(SCMP_ACT_ALLOW, "fcntl", SCMP_A1(SCMP_CMP_EQ, static_cast<std::uint64_t>(command)));
  // With a GPU it sees the node on whose bytes evaluators have locks (env/judge/device_lock.hpp).
  for (const int command : {F_SETLK, F_SETLKW})
    rules.when(gpu ? SCMP_ACT_ERRNO(ENOLCK) : SCMP_ACT_ALLOW, "fcntl",
               SCMP_A1(SCMP_CMP_EQ, static_cast<std::uint64_t>(command)));
  if (gpu) rules.when(SCMP_ACT_ALLOW, "fcntl", SCMP_A1(SCMP_CMP_EQ, F_ADD_SEALS));
  for (const int option : {PR_SET_NAME, PR_GET_NAME, PR_SET_NO_NEW_PRIVS, PR_SET_VMA})
    rules.when(SCMP_ACT_ALLOW, "prctl", SCMP_A0(SCMP_CMP_EQ, static_cast<std::uint64_t>(option)));
  // One way only: what is dumpable again could write its own text (env/runner/file_lock.hpp).
  if (gpu) rules.when_both("prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_DUMPABLE), SCMP_A1(SCMP_CMP_EQ, 0));
  // Reading limits is harmless; the compiler also raises its stack limit.
  if (compiler) {
    rules.when(SCMP_ACT_ALLOW, "prlimit64", SCMP_A0(SCMP_CMP_EQ, 0));
  } else {
    rules.when(SCMP_ACT_ALLOW, "prlimit64", SCMP_A2(SCMP_CMP_EQ, 0));
  }
  return rules.finish();
}

}  // namespace

base::expected<std::vector<sock_filter>> make_syscall_filter(syscall_profile profile,
                                                             bool threads) {
  // libseccomp takes a millisecond; there are fourteen filters in all.
  static std::mutex mutex;
  static std::map<std::pair<syscall_profile, bool>, std::vector<sock_filter>> made;
  const std::lock_guard lock(mutex);
  auto found = made.find({profile, threads});
  if (found == made.end()) {
    QUERN_TRY(auto filter, build_syscall_filter(profile, threads));
    found = made.emplace(std::pair(profile, threads), std::move(filter)).first;
  }
  return found->second;
}

}  // namespace quern::env
