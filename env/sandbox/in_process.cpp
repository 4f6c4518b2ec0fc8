// Sandboxing the calling process itself.
#include "env/sandbox/in_process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/sandbox/idmap.hpp"
#include "env/sandbox/seccomp_filter.hpp"

namespace quern::env {
namespace {

constexpr std::pair<layer, int> unshare_flags[] = {{layer::mountns, CLONE_NEWNS},
                                                   {layer::netns, CLONE_NEWNET},
                                                   {layer::ipcns, CLONE_NEWIPC},
                                                   {layer::utsns, CLONE_NEWUTS}};

// A process that is not root gets the right to the other namespaces from a user namespace. Its maps
// are written by a helper that stays outside of it: inside, one may map only oneself.
base::status enter_user_namespace(const setup_plan& plan) {
  const pid_t own = getpid();
  int go[2];
  if (pipe2(go, O_CLOEXEC) != 0) return base::fail_errno("making a pipe");
  const base::unique_fd wait_end(go[0]);
  base::unique_fd go_end(go[1]);
  const pid_t helper = fork();
  if (helper < 0) return base::fail_errno("fork");
  if (helper == 0) {
    go_end.reset();
    char byte = 0;
    if (read(wait_end.get(), &byte, 1) != 1) _exit(1);
    _exit(write_id_maps(own, plan.drop_uid, plan.uid) ? 0 : 1);
  }
  const bool entered = unshare(CLONE_NEWUSER) == 0;
  const int error = errno;
  if (entered && write(go_end.get(), "g", 1) != 1) return base::fail_errno("writing to a pipe");
  go_end.reset();
  int status = 0;
  while (waitpid(helper, &status, 0) < 0 && errno == EINTR) {
  }
  errno = error;
  if (!entered) return base::fail_errno("unshare(CLONE_NEWUSER)");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return base::fail(base::errc::unavailable, "the user namespace's maps cannot be written");
  return {};
}

void close_all_but(const std::vector<kept_fd>& keep) {
  std::vector<unsigned> numbers{0, 1, 2};
  for (const auto& item : keep)
    numbers.push_back(static_cast<unsigned>(item.fd));
  std::sort(numbers.begin(), numbers.end());
  unsigned next = 0;
  for (const unsigned number : numbers) {
    if (number > next) syscall(SYS_close_range, next, number - 1, 0);
    next = std::max(next, number + 1);
  }
  syscall(SYS_close_range, next, ~0U, 0);
}

}  // namespace

base::expected<sandbox_entry> sandbox_entry::begin(const child_spec& spec, const host_facts& facts,
                                                   sandbox_mode mode, const cgroup_leaf* group) {
  QUERN_CHECK(admit(facts, mode));
  layer_set want = facts.available;
  want.remove(layer::pidns);
  if (group == nullptr) {
    want.remove(layer::cgroup1);
    want.remove(layer::cgroup2);
  } else {
    QUERN_CHECK(group->add(0));
  }
  child_spec here = spec;
  here.keep.clear();  // numbers stay as they are
  QUERN_TRY(auto plan, make_setup_plan(here, want, facts.landlock_abi, false));
  plan.userns_first = !facts.root && want.has(layer::userns);
  if (plan.userns_first) QUERN_CHECK(enter_user_namespace(plan));
  int flags = 0;
  for (const auto& [which, flag] : unshare_flags)
    if (plan.want.has(which)) flags |= flag;
  if (flags != 0 && unshare(flags) != 0) return base::fail_errno("unshare");
  if (!plan.want.has(layer::mountns)) plan.work.clear();
  plan.keep_descriptors = true;
  close_all_but(spec.keep);
  // Behind the namespaces: a change of credentials clears it.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return sandbox_entry(std::move(plan));
}

base::expected<layer_set> sandbox_entry::complete(const late_spec& late) {
  QUERN_CHECK(show_more(plan_, late.read_only));
  plan_.core = late.core;
  close_all_but(late.keep);
  setup_failure failure;
  bool done = put_on_layers(plan_, failure);
  // Another user's process without exec is not dumpable: its own /proc, where CUDA looks, is
  // root's.
  if (done && plan_.with_gpu) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  done = done && load_filter(plan_, failure);
  if (plan_.work_fd >= 0) close(plan_.work_fd);
  if (!done)
    return base::fail(base::errc::unavailable, "sandbox: {} ({}): {}", failure.step,
                      name_of(failure.which), std::strerror(failure.error));
  return plan_.want;
}

base::expected<layer_set> apply_sandbox_in_this_process(const child_spec& spec,
                                                        const host_facts& facts, sandbox_mode mode,
                                                        const cgroup_leaf* group) {
  QUERN_TRY(auto entry, sandbox_entry::begin(spec, facts, mode, group));
  return entry.complete({{}, spec.keep, spec.core});
}

}  // namespace quern::env
