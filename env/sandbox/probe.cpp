// What this host offers for sandboxing, found by trying it.
#include "env/sandbox/probe.hpp"

#include <cerrno>
#include <cstring>

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "env/sandbox/cgroup.hpp"
#include "env/sandbox/idmap.hpp"
#include "env/sandbox/landlock.hpp"
#include "env/sandbox/launch.hpp"

namespace quern::env {
namespace {

constexpr std::pair<layer, unsigned long> clone_flags[] = {{layer::mountns, CLONE_NEWNS},
                                                           {layer::pidns, CLONE_NEWPID},
                                                           {layer::netns, CLONE_NEWNET},
                                                           {layer::ipcns, CLONE_NEWIPC},
                                                           {layer::utsns, CLONE_NEWUTS}};

// 0 or errno of making a child in new namespaces that ends at once.
int try_clone(unsigned long flags) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const long pid = syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid == 0) _exit(0);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return error;
  while (waitpid(static_cast<int>(pid), nullptr, 0) < 0 && errno == EINTR) {
  }
  return 0;
}

// Whether a process that lowers its limit of addresses is held to it. Systems that emulate the
// calls take the limit and forget it.
bool address_limit_works() {
  constexpr rlim_t room = rlim_t{4} << 30;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const long pid = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid == 0) {
    const rlimit limit{room, room};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    const void* got = mmap(nullptr, std::size_t{room} + (1 << 20), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    _exit(got == MAP_FAILED ? 0 : 1);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  int status = 1;
  while (pid > 0 && waitpid(static_cast<int>(pid), &status, 0) < 0 && errno == EINTR) {
  }
  return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void miss(host_facts& facts, layer which, std::string why) {
  facts.available.remove(which);
  facts.why_missing.emplace(which, std::move(why));
}

// A limit of this process or machine: says nothing of what Linux offers.
bool is_exhaustion(int error) {
  return error == EMFILE || error == ENFILE || error == EAGAIN || error == ENOMEM;
}

// No child could be made, for a reason that no layer is the cure of.
void note_obstacle(host_facts& facts, std::string what) {
  facts.available = {};
  facts.obstacle = std::move(what);
}

void note_process_limit(host_facts& facts, int error) {
  note_obstacle(facts, fmt::format("this process cannot start another one: {}; raise the limit of "
                                   "processes (ulimit -u, pids.max) or of memory",
                                   std::strerror(error)));
}

// Whatever the host offers, a sandboxed child is made with descriptors of high numbers.
bool has_descriptors(host_facts& facts) {
  const std::uint64_t limit = base::descriptor_limit();
  if (limit >= needed_descriptors) return true;
  note_obstacle(facts, fmt::format("this process may have {} files open, to sandbox a child takes "
                                   "{}: raise that (ulimit -n, LimitNOFILE= of a unit)",
                                   limit, needed_descriptors));
  return false;
}

void find_namespaces(host_facts& facts) {
  if (const int error = try_clone(0); error != 0) return note_process_limit(facts, error);
  facts.root = geteuid() == 0 && try_clone(CLONE_NEWNS) == 0;
  const unsigned long with = facts.root ? 0 : CLONE_NEWUSER;
  if (const int error = try_clone(CLONE_NEWUSER); error != 0)
    miss(facts, layer::userns, fmt::format("clone(CLONE_NEWUSER): {}", std::strerror(error)));
  for (const auto& [which, flag] : clone_flags)
    if (const int error = try_clone(with | flag); error != 0)
      miss(facts, which, fmt::format("clone: {}", std::strerror(error)));
  if (!facts.available.has(layer::mountns))
    miss(facts, layer::read_only_root, "needs a mount namespace");
}

void find_cgroups(host_facts& facts) {
  std::string why;
  facts.cgroups = find_cgroup_place(why);
  if (why.empty()) why = "this host uses the other version";
  if (facts.cgroups.version != 1) miss(facts, layer::cgroup1, why);
  if (facts.cgroups.version != 2) miss(facts, layer::cgroup2, why);
}

// Tries all layers at once in a child that does nothing else, and leaves out the one that failed,
// until a child comes through: what is then left works together, by the very code that is used.
void try_out(host_facts& facts) {
  child_spec spec;
  spec.read_only = system_library_folders();
  for (int round = 0; round <= layer_count; ++round) {
    auto plan = make_setup_plan(spec, facts.available, facts.landlock_abi, false);
    if (!plan) return miss(facts, layer::seccomp, plan.error().message);
    plan->userns_first = !facts.root && facts.available.has(layer::userns);
    stillbirth why;
    auto child = clone_embryo(*plan, nullptr, nullptr);
    if (!child && child.error().code == base::errc::exhausted)
      return note_obstacle(facts, child.error().message);
    if (!child) return miss(facts, layer::userns, child.error().message);
    auto born = release(*child, *plan, nullptr, &why);
    if (born) {
      while (waitpid(child->pid, nullptr, 0) < 0 && errno == EINTR) {
      }
      return;
    }
    if (!why.failure) return miss(facts, layer::seccomp, born.error().message);
    if (is_exhaustion(why.failure->error)) return note_obstacle(facts, born.error().message);
    layer failed = why.failure->which;
    // Maps with a subordinate number may be refused where one's own are not.
    if (failed == layer::userns && !facts.root && facts.available.has(layer::foreign_uid))
      failed = layer::foreign_uid;
    // A step that belongs to no removable layer would fail for ever.
    if (!facts.available.has(failed)) return miss(facts, layer::seccomp, born.error().message);
    miss(facts, failed, born.error().message);
    if (failed == layer::mountns) miss(facts, layer::read_only_root, "needs a mount namespace");
    if (failed == layer::userns && !facts.root)
      for (const layer which : {layer::mountns, layer::pidns, layer::netns, layer::ipcns,
                                layer::utsns, layer::read_only_root})
        miss(facts, which, "needs a user namespace");
  }
}

host_facts probe() {
  host_facts facts;
  facts.available = layer_set::all();
  facts.address_limit = address_limit_works();
  facts.landlock_abi = landlock_version();
  if (facts.landlock_abi == 0)
    miss(facts, layer::landlock, fmt::format("Linux says: {}", std::strerror(errno)));
  if (!has_descriptors(facts)) return facts;
  find_namespaces(facts);
  if (!facts.obstacle.empty()) return facts;
  find_cgroups(facts);
  if (geteuid() != 0 && !facts.available.has(layer::userns))
    miss(facts, layer::foreign_uid, "this process may not become another user");
  else if (geteuid() != 0 && !find_subordinate_ids())
    miss(facts, layer::foreign_uid, why_no_subordinate_ids());
  try_out(facts);
  return facts;
}

}  // namespace

const host_facts& probe_host() {
  static const host_facts facts = probe();
  return facts;
}

namespace {

bool has_group(const host_facts& facts) {
  return facts.available.has(layer::cgroup1) || facts.available.has(layer::cgroup2);
}

std::string_view described(sandboxed_code what) {
  switch (what) {
    case sandboxed_code::on_core:
      return "kernels";
    case sandboxed_code::on_gpu:
      return "kernels and references on a GPU";
    case sandboxed_code::host_code_on_gpu:
      return "host code of kernels on a GPU";
  }
  return "";
}

}  // namespace

base::status admit(const host_facts& facts, sandbox_mode mode, sandboxed_code what) {
  if (!facts.obstacle.empty()) return base::fail(base::errc::exhausted, "{}", facts.obstacle);
  if (mode == sandbox_mode::best_effort) return {};
  const bool host_entry = what == sandboxed_code::host_code_on_gpu;
  std::string missing;
  const auto need = [&](layer which, std::string_view name) {
    const auto why = facts.why_missing.find(which);
    missing +=
        fmt::format("\n  {}: {}; {}", name,
                    why == facts.why_missing.end() ? "turned off" : why->second, advice_for(which));
  };
  const auto has = [&](layer which) { return facts.available.has(which); };
  if (!has(layer::seccomp)) need(layer::seccomp, "a system call filter (seccomp)");
  if (!has(layer::netns) && !has(layer::seccomp)) need(layer::netns, "no network");
  if (!has(layer::foreign_uid)) need(layer::foreign_uid, "a user of its own (foreign uid)");
  if (!has(layer::rlimits)) need(layer::rlimits, "resource limits");
  if (host_entry && !has(layer::landlock))
    need(layer::landlock, "a limited view of files (Landlock)");
  else if (!has(layer::landlock) && !has(layer::read_only_root))
    need(layer::landlock, "a limited view of files (Landlock or a read-only root)");
  const bool group = has_group(facts);
  const bool addresses = has(layer::rlimits) && facts.address_limit;
  if (!group && what != sandboxed_code::on_core)
    need(layer::cgroup2,
         "a memory bound (a control group: a process with a GPU has no RLIMIT_AS, because CUDA "
         "reserves more addresses than there is memory)");
  else if (!group && !addresses)
    need(layer::cgroup2,
         "a memory bound (a control group, or RLIMIT_AS, which this system does not keep)");
  if (missing.empty()) return {};
  // Without a group nothing on a GPU is judged.
  const std::string_view form =
      host_entry && group ? "\nor judge launch plans alone: `env.host_entry: false`" : "";
  return base::fail(base::errc::unavailable,
                    "this host lacks what running untrusted {} needs:{}{}\n"
                    "or run with what there is, at your own risk: `env.sandbox: best_effort` in a "
                    "configuration, --best-effort for quern eval, --sandbox best_effort elsewhere",
                    described(what), missing, form);
}

std::vector<admission> admissions(const host_facts& facts, bool gpu) {
  const auto of = [&](sandboxed_code what) { return admit(facts, sandbox_mode::required, what); };
  std::vector<admission> all;
  all.push_back({"sandbox", of(sandboxed_code::on_core),
                 "every layer that `sandbox: required` needs for code on a core"});
  if (!gpu) return all;
  all.push_back({"with a GPU", of(sandboxed_code::on_gpu),
                 "every layer that `sandbox: required` needs for code on a GPU"});
  if (all.back().admitted)
    all.push_back({"host code", of(sandboxed_code::host_code_on_gpu),
                   "every layer that `sandbox: required` needs of `env.host_entry: true`"});
  return all;
}

std::string describe(const host_facts& facts) {
  if (!facts.obstacle.empty()) return fmt::format("not tried: {}\n", facts.obstacle);
  std::string text;
  for (int i = 0; i < layer_count; ++i) {
    const auto which = static_cast<layer>(i);
    // A host has control groups of one version; the other is not missing.
    if ((which == layer::cgroup1 && facts.available.has(layer::cgroup2)) ||
        (which == layer::cgroup2 && facts.available.has(layer::cgroup1)))
      continue;
    if (facts.available.has(which)) {
      text +=
          fmt::format("{:<16}yes{}\n", name_of(which),
                      which == layer::landlock ? fmt::format(" (ABI {})", facts.landlock_abi) : "");
    } else {
      const auto why = facts.why_missing.find(which);
      text += fmt::format("{:<16}no: {}; {}\n", name_of(which),
                          why == facts.why_missing.end() ? "turned off" : why->second,
                          advice_for(which));
    }
  }
  return text;
}

}  // namespace quern::env
