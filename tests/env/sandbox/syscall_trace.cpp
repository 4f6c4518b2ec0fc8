// A small strace that keeps only what was refused.
#include "syscall_trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <tuple>

#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace quern::test {
namespace {

// Which argument is a path.
int path_argument(long number) {
  switch (number) {
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
    case SYS_readlink:
    case SYS_mkdir:
    case SYS_unlink:
    case SYS_mknod:
#endif
    case SYS_statfs:
    case SYS_execve:
      return 0;
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_readlinkat:
    case SYS_statx:
    case SYS_mknodat:
    case SYS_mkdirat:
    case SYS_unlinkat:
      return 1;
    default:
      return -1;
  }
}

std::string name_of_call(long number) {
  char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(number));
  std::string text = name != nullptr ? name : "call";
  std::free(name);
  return text + "(" + std::to_string(number) + ")";
}

std::string read_text(int tid, std::uint64_t at) {
  char buffer[256] = {};
  iovec to{buffer, sizeof buffer - 1};
  iovec from{reinterpret_cast<void*>(at), sizeof buffer - 1};
  if (process_vm_readv(tid, &to, 1, &from, 1, 0) <= 0) {
    // The text may end just before a page that is not there.
    const std::uint64_t left = 4096 - at % 4096;
    from.iov_len = to.iov_len = std::min<std::uint64_t>(left, sizeof buffer - 1);
    if (process_vm_readv(tid, &to, 1, &from, 1, 0) <= 0) return "?";
  }
  return buffer;
}

class tracer {
 public:
  explicit tracer(int pid) : pid_(pid) {}

  void run(void (*go)(void*), void* argument) {
    constexpr long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                             PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
    if (ptrace(PTRACE_SEIZE, pid_, nullptr, options) != 0 ||
        ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr) != 0) {
      result_.problem = std::string("ptrace: ") + std::strerror(errno);
      go(argument);
      return;
    }
    go(argument);
    for (;;) {
      siginfo_t info{};
      // Only what this thread follows; the end of the child itself is left for its owner.
      if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL | __WNOTHREAD) != 0) {
        if (errno == EINTR) continue;
        break;
      }
      if (info.si_pid == pid_ && (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
                                  info.si_code == CLD_DUMPED)) {
        // The filter ends a process behind the call, without a stop that could be seen.
        if (info.si_code != CLD_EXITED && info.si_status == SIGSYS)
          result_.last_call = latest_ + " [ended by the filter]";
        else
          took_effect(pid_);
        break;
      }
      int status = 0;
      if (waitpid(info.si_pid, &status, __WALL) < 0) break;
      if (WIFSTOPPED(status)) on_stop(info.si_pid, status);
    }
    for (const auto& [tid, call] : inside_)
      result_.last_call += (result_.last_call.empty() ? "" : ", ") + call.text;
  }

  trace_result take() {
    for (auto& [key, times] : seen_)
      result_.refused.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), times});
    return std::move(result_);
  }

 private:
  struct entered {
    long number = 0;
    std::uint64_t arguments[6] = {};
    std::string text;
  };

  void on_stop(int tid, int status) {
    const int signal = WSTOPSIG(status);
    int pass_on = 0;
    if (signal == (SIGTRAP | 0x80)) {
      on_call(tid);
    } else if (status >> 16 == 0) {
      pass_on = signal;  // a signal on its way; stops of ptrace's own are none
    }
    ptrace(PTRACE_SYSCALL, tid, nullptr, pass_on);
  }

  void on_call(int tid) {
    __ptrace_syscall_info info{};
    if (ptrace(static_cast<__ptrace_request>(PTRACE_GET_SYSCALL_INFO), tid, sizeof info, &info) <=
        0)
      return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
      took_effect(tid);
      entered& call = inside_[tid];
      call.number = static_cast<long>(info.entry.nr);
      std::copy_n(info.entry.args, 6, call.arguments);
      call.text = latest_ = name_of_call(call.number);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
      const auto it = inside_.find(tid);
      if (it == inside_.end()) return;
      const long value = static_cast<long>(info.exit.rval);
      if (value >= 0 || value == -ESRCH) answered_[tid] = deed_of(it->second);
      if (value == -EPERM || value == -EACCES || value == -ENOSYS || value == -ENOENT ||
          value == -ENOTTY || value == -EROFS || value == -ENOTDIR)
        note(tid, it->second, static_cast<int>(-value));
      inside_.erase(it);
    }
  }

  /// Not before the next call: one for which the filter ends the process looks answered, too.
  void took_effect(int tid) {
    if (const auto it = answered_.find(tid); it != answered_.end())
      result_.made.insert(answered_.extract(it).mapped());
  }

  static std::string deed_of(const entered& call) {
    const std::string name = call.text.substr(0, call.text.find('('));
    const bool writes = call.number == SYS_openat && (call.arguments[2] & O_ACCMODE) != O_RDONLY;
    return name + (writes ? " for writing" : "");
  }

  void note(int tid, const entered& call, int error) {
    const int at = path_argument(call.number);
    std::string detail;
    if (at >= 0) {
      detail = read_text(tid, call.arguments[at]);
    } else {
      char buffer[80];
      std::snprintf(buffer, sizeof buffer, "0x%" PRIx64 ", 0x%" PRIx64, call.arguments[0],
                    call.arguments[1]);
      detail = buffer;
    }
    const char* name = strerrorname_np(error);
    const std::string number = call.text.substr(call.text.find('('));
    ++seen_[{deed_of(call) + number, name != nullptr ? name : "?", detail}];
  }

  int pid_;
  std::map<int, entered> inside_;
  std::map<int, std::string> answered_;  ///< a thread's last call that was no failure
  std::map<std::tuple<std::string, std::string, std::string>, int> seen_;
  std::string latest_;
  trace_result result_;
};

}  // namespace

trace_result trace_child_with(int pid, void (*go)(void*), void* argument) {
  tracer one(pid);
  // A thread of its own: what it follows ends being followed with it.
  std::thread([&] { one.run(go, argument); }).join();
  return one.take();
}

}  // namespace quern::test
