// The steps by which a process puts sandbox layers on itself.
#include "env/sandbox/setup.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/measuring_cores.hpp"
#include "env/sandbox/landlock.hpp"
#include "env/sandbox/layout.hpp"
#include "env/sandbox/mounts.hpp"
#include "env/sandbox/seccomp_filter.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr uid_t first_foreign_uid = 60578;
constexpr uid_t foreign_uids = 600;
constexpr int nproc_slack = 32;

// Links appear as links, so that /lib -> usr/lib looks as it does outside.
void add_visible(std::vector<setup_plan::visible>& out, const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return;
  setup_plan::visible item;
  item.path = path;
  if (S_ISLNK(info.st_mode)) {
    std::error_code ignored;
    item.link = fs::read_symlink(path, ignored).string();
  }
  item.folder = S_ISDIR(info.st_mode);
  item.device = S_ISCHR(info.st_mode);
  out.push_back(std::move(item));
}

void add_gpu(std::vector<setup_plan::visible>& out, const gpu_access& gpu) {
  for (const auto& path : gpu.read_only)
    add_visible(out, path);
  for (const auto& path : gpu.devices) {
    const std::size_t before = out.size();
    add_visible(out, path);
    if (out.size() > before) out.back().ioctl = out.back().device;
  }
  setup_plan::visible processes;
  processes.path = "/proc";
  processes.folder = processes.processes = true;
  out.push_back(std::move(processes));
}

// Shorter paths first; what lies in a folder that is visible anyway needs nothing of its own.
void order(std::vector<setup_plan::visible>& items) {
  std::sort(items.begin(), items.end(),
            [](const auto& left, const auto& right) { return left.path < right.path; });
  std::vector<setup_plan::visible> kept;
  for (auto& item : items) {
    const bool inside = std::any_of(kept.begin(), kept.end(), [&](const auto& other) {
      return item.path == other.path || (other.folder && item.path.starts_with(other.path + "/"));
    });
    if (!inside) kept.push_back(std::move(item));
  }
  items = std::move(kept);
}

void add_limit(setup_plan& plan, int which, std::int64_t value, std::int64_t hard = -1) {
  if (value <= 0 && which != RLIMIT_CORE && which != RLIMIT_MEMLOCK && which != RLIMIT_MSGQUEUE)
    return;
  const auto soft = static_cast<rlim_t>(value);
  plan.rlimits.push_back({which, {soft, hard < 0 ? soft : static_cast<rlim_t>(hard)}});
}

void add_limits(setup_plan& plan, const child_spec& spec, layer_set want) {
  const child_limits& limits = spec.limits;
  const auto cpu = static_cast<std::int64_t>(std::ceil(limits.cpu_s));
  // One second between the limit that may be caught and the one that may not.
  add_limit(plan, RLIMIT_CPU, cpu, cpu + 1);
  add_limit(plan, RLIMIT_FSIZE, limits.file_bytes);
  add_limit(plan, RLIMIT_NOFILE, limits.open_files);
  add_limit(plan, RLIMIT_CORE, 0);
  // The driver locks pages for the device; they count towards the control group.
  if (!spec.gpu) add_limit(plan, RLIMIT_MEMLOCK, 0);
  add_limit(plan, RLIMIT_MSGQUEUE, 0);
  const bool group = want.has(layer::cgroup1) || want.has(layer::cgroup2);
  if (group) return;
  if (!spec.gpu) add_limit(plan, RLIMIT_AS, limits.memory_bytes);
  // Counted per user, and the child of another evaluator may by chance have the same one: a bound
  // for bombs, not an exact number. Without a user of its own it would count the owner's processes.
  if (plan.drop_uid) add_limit(plan, RLIMIT_NPROC, limits.processes + nproc_slack);
}

bool put_on_rlimits(const setup_plan& plan) {
  for (const auto& [which, value] : plan.rlimits) {
    rlimit now{};
    rlimit wanted = value;
    // Without privilege a hard limit can only go down; lower than asked is fine.
    if (getrlimit(static_cast<__rlimit_resource_t>(which), &now) == 0) {
      wanted.rlim_max = std::min(wanted.rlim_max, now.rlim_max);
      wanted.rlim_cur = std::min(wanted.rlim_cur, wanted.rlim_max);
    }
    if (setrlimit(static_cast<__rlimit_resource_t>(which), &wanted) != 0) return false;
  }
  return true;
}

void drop_capabilities() {
  for (int capability = 0; capability < 64; ++capability)
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno == EINVAL) break;
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

bool clear_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number)
    sigaction(number, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// All sources are parked high first, so that no target number overwrites one that is still needed.
bool place_descriptors(setup_plan& plan, int& ruleset) {
  for (int* fd : {&plan.work_fd, &plan.program_fd, &plan.report_fd, &ruleset}) {
    if (*fd < 0) continue;
    const int parked = fcntl(*fd, F_DUPFD_CLOEXEC, parked_from);
    if (parked < 0) return false;
    close(*fd);
    *fd = parked;
  }
  if (plan.life_fd >= 0 && (plan.life_fd = fcntl(plan.life_fd, F_DUPFD_CLOEXEC, parked_from)) < 0)
    return false;
  for (auto& item : plan.descriptors)
    if ((item.fd = fcntl(item.fd, F_DUPFD_CLOEXEC, parked_from)) < 0) return false;
  if (plan.keep_descriptors) return true;
  // Whatever somebody opened without O_CLOEXEC must not come along.
  if (syscall(SYS_close_range, 3U, ~0U, 1U << 2U /* CLOSE_RANGE_CLOEXEC */) != 0)
    for (int fd = 3; fd < 4096; ++fd)
      fcntl(fd, F_SETFD, FD_CLOEXEC);
  for (const auto& item : plan.descriptors)
    if (dup2(item.fd, item.as) < 0) return false;
  return true;
}

landlock_right right_to(const setup_plan::visible& item) {
  if (item.processes) return landlock_right::read_and_write;
  if (item.ioctl) return landlock_right::device_orders;
  return item.device ? landlock_right::device : landlock_right::read_and_run;
}

bool allow_files(const setup_plan& plan, int ruleset) {
  const int abi = plan.landlock_abi;
  const bool new_root = plan.want.has(layer::mountns);
  if (new_root && !landlock_allow(ruleset, abi, "/", landlock_right::read_and_run)) return false;
  for (const auto& item : plan.visibles) {
    const landlock_right right = right_to(item);
    if (new_root && right == landlock_right::read_and_run) continue;
    if (!landlock_allow(ruleset, abi, item.path.c_str(), right)) return false;
  }
  const char* work = new_root ? inner_work_folder : plan.work.c_str();
  if (*work != '\0' && !landlock_allow(ruleset, abi, work, landlock_right::everything))
    return false;
  return landlock_allow(ruleset, abi, "/dev/null", landlock_right::device);
}

// By the raw calls: the C library's would tell all other threads of the parent, which a forked
// child does not have.
bool become_foreign(const setup_plan& plan) {
  if (syscall(SYS_setgroups, 0, nullptr) != 0 && !plan.userns_first) return false;
  return syscall(SYS_setresgid, plan.uid, plan.uid, plan.uid) == 0 &&
         syscall(SYS_setresuid, plan.uid, plan.uid, plan.uid) == 0;
}

bool parent_is_gone(int life_fd) {
  if (life_fd < 0) return false;
  pollfd item{life_fd, 0, 0};
  return poll(&item, 1, 0) > 0 && (item.revents & POLLHUP) != 0;
}

/// A group of its own, to be killed whole, and no terminal, in which it could type. Not a session
/// of its own: where Linux shares processors out by session (sched(7), autogroup), priorities
/// would say nothing between an evaluator and the runners that it times.
bool leave_terminal(setup_failure& failure) {
  if (setpgid(0, 0) != 0) return fail_at(failure, layer::rlimits, "making a process group");
  const int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return true;
  const bool left = ioctl(terminal, TIOCNOTTY) == 0;
  if (!left) fail_at(failure, layer::rlimits, "leaving the terminal");
  close(terminal);
  return left;
}

}  // namespace

bool fail_at(setup_failure& failure, layer which, const char* step) {
  failure.which = which;
  failure.error = errno;
  std::strncpy(failure.step, step, sizeof failure.step - 1);
  return false;
}

uid_t next_foreign_uid() {
  static std::atomic<uid_t> counter{static_cast<uid_t>(getpid())};
  return first_foreign_uid + counter.fetch_add(1) % foreign_uids;
}

std::vector<std::string> system_library_folders() {
  return {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"};
}

base::status show_more(setup_plan& plan, const std::vector<std::string>& read_only) {
  for (const auto& path : read_only) {
    if (path.empty() || path[0] != '/' || path == "/")
      return base::fail(base::errc::invalid_argument,
                        "'{}' cannot be made visible in a sandbox: give an absolute path below /",
                        path);
    add_visible(plan.visibles, fs::path(path).lexically_normal().string());
  }
  order(plan.visibles);
  return {};
}

base::expected<setup_plan> make_setup_plan(const child_spec& spec, layer_set want, int landlock_abi,
                                           bool exec_follows) {
  setup_plan plan;
  plan.want = want;
  plan.landlock_abi = landlock_abi;
  plan.core = spec.core;
  if (spec.core < 0) plan.cores = base::cores_beside_measuring();
  plan.fixed_layout = spec.fixed_layout;
  plan.with_gpu = spec.gpu.has_value();
  plan.drop_uid = want.has(layer::foreign_uid);
  plan.uid = plan.drop_uid ? next_foreign_uid() : geteuid();
  if (exec_follows) {
    if (spec.argv.empty() || spec.argv[0].empty() || spec.argv[0][0] != '/')
      return base::fail(base::errc::invalid_argument,
                        "a sandboxed program needs an absolute path, got '{}'",
                        spec.argv.empty() ? "" : spec.argv[0]);
    plan.program = spec.argv[0];
    if (access(plan.program.c_str(), X_OK) != 0)
      return base::fail_errno(fmt::format("{} cannot be run", plan.program));
    add_visible(plan.visibles, plan.program);
  }
  add_visible(plan.visibles, "/dev/null");
  if (spec.gpu) add_gpu(plan.visibles, *spec.gpu);
  QUERN_CHECK(show_more(plan, spec.read_only));
  // Open to all users, because the parent may be another one; by path only the child gets there.
  if (spec.limits.work_bytes > 0)
    plan.work_options =
        fmt::format("size={},nr_inodes={},mode=0777,uid={},gid={}", spec.limits.work_bytes,
                    std::max<std::int64_t>(4096, spec.limits.work_bytes >> 15), plan.uid,
                    plan.drop_uid ? plan.uid : getegid());
  add_limits(plan, spec, want);
  if (want.has(layer::seccomp)) {
    QUERN_TRY(plan.filter, make_syscall_filter(spec.profile, spec.threads));
  }
  for (const auto& item : spec.keep) {
    if (item.as < 3 || item.as >= parked_from)
      return base::fail(base::errc::invalid_argument,
                        "descriptor number {} of a child is not in 3..{}", item.as,
                        parked_from - 1);
    plan.descriptors.push_back(item);
  }
  return plan;
}

bool put_on_layers(setup_plan& plan, setup_failure& failure) {
  const auto wants = [&](layer which) { return plan.want.has(which); };
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (!leave_terminal(failure)) return false;
  umask(022);  // what it leaves in its work folder is for the parent to read
  // Worth something and no layer: a host that refuses it judges less precisely.
  if (plan.fixed_layout) (void)ask_for_fixed_layout();
  if (plan.core >= 0) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(plan.core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0)
      return fail_at(failure, layer::rlimits, "pinning to a core");
  } else if (plan.cores) {
    // What is measured is less even where this fails, and nothing else is.
    (void)sched_setaffinity(0, sizeof *plan.cores, &*plan.cores);
  }
  if (wants(layer::mountns)) {
    if (!enter_new_root(plan, failure)) return false;
    if (plan.work_fd >= 0 && fchdir(plan.work_fd) != 0)
      return fail_at(failure, layer::mountns, "entering the work folder");
  } else if (!plan.work.empty()) {
    plan.work_fd = open(plan.work.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (plan.work_fd < 0 || fchdir(plan.work_fd) != 0)
      return fail_at(failure, layer::rlimits, "entering the work folder");
  } else if (chdir("/") != 0) {
    return fail_at(failure, layer::rlimits, "leaving the working directory");
  }
  if (!plan.program.empty()) {
    plan.program_fd = open(plan.program.c_str(), O_PATH | O_CLOEXEC);
    if (plan.program_fd < 0) return fail_at(failure, layer::mountns, "opening the program");
  }
  int ruleset = -1;
  if (wants(layer::landlock)) {
    ruleset = landlock_create(plan.landlock_abi);
    if (ruleset < 0 || !allow_files(plan, ruleset))
      return fail_at(failure, layer::landlock, "making Landlock rules");
  }
  if (!place_descriptors(plan, ruleset))
    return fail_at(failure, layer::rlimits, "putting descriptors in order");
  if (wants(layer::rlimits) && !put_on_rlimits(plan))
    return fail_at(failure, layer::rlimits, "setrlimit");
  drop_capabilities();
  if (plan.drop_uid && !become_foreign(plan))
    return fail_at(failure, layer::foreign_uid, "changing the user");
  if (wants(layer::userns) && !plan.userns_first) {
    if (unshare(CLONE_NEWUSER) != 0) return fail_at(failure, layer::userns, "unshare");
    drop_capabilities();
  }
  if (!clear_capabilities()) return fail_at(failure, layer::foreign_uid, "dropping capabilities");
  // Changing the user has cleared it; and the parent may have gone in between.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (parent_is_gone(plan.life_fd)) {
    errno = ESRCH;
    return fail_at(failure, layer::rlimits, "looking for the parent");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail_at(failure, layer::seccomp, "no_new_privs");
  if (ruleset >= 0) {
    if (!landlock_restrict(ruleset)) return fail_at(failure, layer::landlock, "landlock");
    close(ruleset);
  }
  reset_signals();
  return true;
}

bool load_filter(const setup_plan& plan, setup_failure& failure) {
  if (plan.filter.empty()) return true;
  const sock_fprog program{static_cast<unsigned short>(plan.filter.size()),
                           const_cast<sock_filter*>(plan.filter.data())};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0) return true;
  return fail_at(failure, layer::seccomp, "loading the system call filter");
}

}  // namespace quern::env
