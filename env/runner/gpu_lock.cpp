// What a process of lane `cuda` gives up before and after a candidate is loaded. Filters written by
// hand: the runner links nothing but libc.
#include "env/runner/gpu_lock.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quern::env::runner {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_X86_64;
constexpr long refused_here[] = {SYS_fork, SYS_vfork, SYS_alarm, SYS_inotify_init1, SYS_accept};
#else
constexpr std::uint32_t own_architecture = AUDIT_ARCH_AARCH64;
constexpr long refused_here[] = {SYS_inotify_init1, SYS_accept};
#endif

// The driver goes on without what returns an error, so does libc: none of it ends the process.
constexpr long refused_calls[] = {SYS_memfd_create,
                                  SYS_socket,
                                  SYS_socketpair,
                                  SYS_connect,
                                  SYS_bind,
                                  SYS_listen,
                                  SYS_accept4,
                                  SYS_timerfd_create,
                                  SYS_timerfd_settime,
                                  SYS_timer_create,
                                  SYS_setitimer,
                                  SYS_kill,
                                  SYS_tkill,
                                  SYS_tgkill,
                                  SYS_rt_sigqueueinfo,
                                  SYS_rt_tgsigqueueinfo,
                                  SYS_setpriority,
                                  SYS_sched_setaffinity,
                                  SYS_fallocate,
                                  SYS_unlinkat};

class program {
 public:
  program() {
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own_architecture, 1, 0));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  }
  void answer(long call, std::uint32_t with) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, with));
  }
  /// The same where the third argument has one of the bits.
  void answer_third(long call, std::uint32_t bits, std::uint32_t with) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4));
    // The lower half: both architectures are little-endian.
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t)));
    add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, with));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  int load() {
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    if (used_ > code_.size()) return E2BIG;
    // Set by the sandbox already, where there is one.
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
    const sock_fprog whole{static_cast<unsigned short>(used_), code_.data()};
    const long done =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole);
    // Above 0: a thread that could not be brought under it.
    return done == 0 ? 0 : done > 0 ? EBUSY : errno;
  }

 private:
  void add(sock_filter step) {
    if (used_ < code_.size()) code_[used_] = step;
    ++used_;
  }
  std::array<sock_filter, 96> code_{};
  std::size_t used_ = 0;
};

constexpr std::uint32_t refuse_with(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

}  // namespace

int lock_down(gpu_lock stage) {
  program p;
  if (stage == gpu_lock::before_loading) {
    for (const long call : refused_calls)
      p.answer(call, refuse_with(EPERM));
    for (const long call : refused_here)
      p.answer(call, refuse_with(EPERM));
    p.answer(SYS_clone, refuse_with(EAGAIN));
    p.answer(SYS_clone3, refuse_with(ENOSYS));  // libc then tries clone
    p.answer(SYS_execve, SECCOMP_RET_KILL_PROCESS);
    p.answer(SYS_execveat, SECCOMP_RET_KILL_PROCESS);
  } else {
    p.answer_third(SYS_mmap, PROT_EXEC, refuse_with(EPERM));
    p.answer_third(SYS_mprotect, PROT_EXEC, refuse_with(EPERM));
    p.answer_third(SYS_pkey_mprotect, PROT_EXEC, refuse_with(EPERM));
  }
  return p.load();
}

}  // namespace quern::env::runner
