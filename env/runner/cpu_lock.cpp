// What a process gives up before and after a candidate for a core is loaded. An allow-list: what
// nobody thought of ends the process.
#include "env/runner/cpu_lock.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include "env/runner/lock_program.hpp"

namespace quern::env::runner {
namespace {

// The two that every question costs come first.
constexpr long computing_calls[] = {SYS_recvmsg,
                                    SYS_sendto,
                                    SYS_recvfrom,
                                    SYS_sendmsg,
                                    SYS_read,
                                    SYS_write,
                                    SYS_readv,
                                    SYS_writev,
                                    SYS_pread64,
                                    SYS_pwrite64,
                                    SYS_close,
                                    SYS_ppoll,
                                    SYS_munmap,
                                    SYS_mremap,
                                    SYS_madvise,
                                    SYS_brk,
                                    SYS_futex,
                                    SYS_sched_yield,
                                    SYS_sched_getaffinity,
                                    SYS_getcpu,
                                    SYS_membarrier,
                                    SYS_rseq,
                                    SYS_set_robust_list,
                                    SYS_rt_sigaction,
                                    SYS_rt_sigprocmask,
                                    SYS_rt_sigreturn,
                                    SYS_sigaltstack,
                                    SYS_restart_syscall,
                                    SYS_clock_gettime,
                                    SYS_clock_getres,
                                    SYS_clock_nanosleep,
                                    SYS_nanosleep,
                                    SYS_gettimeofday,
                                    SYS_getrandom,
                                    SYS_getpid,
                                    SYS_gettid,
                                    SYS_getrusage,
                                    SYS_sysinfo,
                                    SYS_fstat,
                                    SYS_newfstatat,
                                    SYS_lseek,
#if defined(__x86_64__)
                                    SYS_poll,
                                    SYS_time,
#endif
                                    SYS_exit,
                                    SYS_exit_group};

constexpr long loading_calls[] = {
#if defined(__x86_64__)
    SYS_access, SYS_readlink, SYS_stat, SYS_lstat, SYS_arch_prctl,
#endif
    SYS_faccessat, SYS_readlinkat, SYS_statx, SYS_getcwd,
    // Of the next lock, which the sandbox's filter bounds to what sets no privileges.
    SYS_prctl, SYS_seccomp};

constexpr std::uint32_t writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;

}  // namespace

int lock_down(cpu_lock stage) {
  lock_program p;
  for (const long call : computing_calls)
    p.answer(call, SECCOMP_RET_ALLOW);
  // abort() sends a signal to its own thread and, when that fails, stops by a fault.
  p.answer(SYS_tgkill, refuse_with(EPERM));
  if (stage == cpu_lock::before_loading) {
    for (const long call : loading_calls)
      p.answer(call, SECCOMP_RET_ALLOW);
    p.answer(SYS_mmap, SECCOMP_RET_ALLOW);
    p.answer(SYS_mprotect, SECCOMP_RET_ALLOW);
    p.answer_bits(SYS_openat, 2, writes, SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
    p.answer_bits(SYS_open, 1, writes, SECCOMP_RET_KILL_PROCESS);
#endif
  } else {
    p.answer_bits(SYS_mmap, 2, PROT_EXEC, SECCOMP_RET_KILL_PROCESS);
    p.answer_bits(SYS_mprotect, 2, PROT_EXEC, SECCOMP_RET_KILL_PROCESS);
  }
  return p.load(SECCOMP_RET_KILL_PROCESS);
}

}  // namespace quern::env::runner
