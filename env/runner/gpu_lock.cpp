// What a process with a GPU gives up before and after a candidate is loaded. Filters written by
// hand: the runner links nothing but libc.
#include "env/runner/gpu_lock.hpp"

#include <sys/mman.h>

#include "env/runner/lock_program.hpp"

namespace quern::env::runner {
namespace {

#if defined(__x86_64__)
constexpr long refused_here[] = {SYS_fork, SYS_vfork, SYS_alarm, SYS_inotify_init1, SYS_accept};
#else
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

}  // namespace

int lock_down(gpu_lock stage) {
  lock_program p;
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
    p.answer_bits(SYS_mmap, 2, PROT_EXEC, refuse_with(EPERM));
    p.answer_bits(SYS_mprotect, 2, PROT_EXEC, refuse_with(EPERM));
    p.answer_bits(SYS_pkey_mprotect, 2, PROT_EXEC, refuse_with(EPERM));
  }
  return p.load(SECCOMP_RET_ALLOW);
}

}  // namespace quern::env::runner
