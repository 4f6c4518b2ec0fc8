// A system call filter written by hand, for the runner, which links nothing but libc.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quern::env::runner {

constexpr std::uint32_t refuse_with(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

/// Rules are looked at in their order; the first that names the call decides. Calls by another
/// architecture's numbers end the process.
class lock_program {
 public:
  lock_program() {
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own_architecture, 1, 0));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  }

  void answer(long call, std::uint32_t with) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, with));
  }

  /// `with` where argument `n` (0: the first) has one of the bits, else the call is allowed.
  void answer_bits(long call, std::size_t n, std::uint32_t bits, std::uint32_t with) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4));
    // The lower half: both architectures are little-endian.
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offsetof(seccomp_data, args) +
                                                                      n * sizeof(std::uint64_t))));
    add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, with));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }

  /// Loads it for all threads of the process and for good; `otherwise` is for calls that no rule
  /// names. 0, or errno.
  int load(std::uint32_t otherwise) {
    add(BPF_STMT(BPF_RET | BPF_K, otherwise));
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
#if defined(__x86_64__)
  static constexpr std::uint32_t own_architecture = AUDIT_ARCH_X86_64;
#else
  static constexpr std::uint32_t own_architecture = AUDIT_ARCH_AARCH64;
#endif
  void add(sock_filter step) {
    if (used_ < code_.size()) code_[used_] = step;
    ++used_;
  }
  std::array<sock_filter, 192> code_{};
  std::size_t used_ = 0;
};

}  // namespace quern::env::runner
