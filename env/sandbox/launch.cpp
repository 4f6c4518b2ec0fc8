// Making one sandboxed process: clone, hand-shake, report.
#include "env/sandbox/launch.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/sandbox/idmap.hpp"

namespace quern::env {
namespace {

struct message {
  bool ready = false;
  std::uint32_t layers = 0;
  setup_failure failure;
};

// Everything from here to exec runs in a forked child of a threaded process: no allocation, no
// lock.
void send_report(int socket, const message& what, int work_fd) {
  iovec part{const_cast<message*>(&what), sizeof what};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (work_fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &work_fd, sizeof(int));
  }
  sendmsg(socket, &header, MSG_NOSIGNAL);
}

[[noreturn]] void live(setup_plan& plan, int go, char* const* argv, char* const* envp) {
  message report;
  char byte = 0;
  // The parent may be killed before it says go: then this read ends at once.
  if (read(go, &byte, 1) != 1) _exit(127);
  if (!put_on_layers(plan, report.failure)) {
    send_report(plan.report_fd, report, -1);
    _exit(127);
  }
  report.ready = true;
  report.layers = plan.want.bits();
  send_report(plan.report_fd, report, plan.work_fd);
  report.ready = false;
  if (load_filter(plan, report.failure)) {
    if (plan.program.empty()) _exit(0);
    syscall(SYS_execveat, plan.program_fd, "", argv, envp, AT_EMPTY_PATH);
    report.failure.error = errno;
    std::strncpy(report.failure.step, "running the program", sizeof report.failure.step - 1);
  }
  send_report(plan.report_fd, report, -1);
  _exit(127);
}

// One report; false at end-of-file.
bool receive(int socket, message& out, base::unique_fd& work) {
  iovec part{&out, sizeof out};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof out)) return false;
  if (const cmsghdr* item = CMSG_FIRSTHDR(&header);
      item != nullptr && item->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
    work.reset(fd);
  }
  return true;
}

void bury(embryo& child) {
  ::kill(child.pid, SIGKILL);
  while (waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  child.pid = -1;
}

}  // namespace

base::expected<embryo> clone_embryo(setup_plan& plan, char* const* argv, char* const* envp) {
  int go[2];
  int report[2];
  // A socket, not a pipe: to write to a child that has died must not raise SIGPIPE here.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) != 0)
    return base::fail_errno("making a socket pair");
  embryo child;
  const base::unique_fd go_read(go[0]);
  child.go.reset(go[1]);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, report) != 0)
    return base::fail_errno("making a socket pair");
  child.report.reset(report[0]);
  const base::unique_fd report_child(report[1]);
  plan.report_fd = report_child.get();

  unsigned long flags = CLONE_PIDFD | SIGCHLD;
  const auto space = [&](layer which, unsigned long flag) {
    if (plan.want.has(which)) flags |= flag;
  };
  space(layer::mountns, CLONE_NEWNS);
  space(layer::pidns, CLONE_NEWPID);
  space(layer::netns, CLONE_NEWNET);
  space(layer::ipcns, CLONE_NEWIPC);
  space(layer::utsns, CLONE_NEWUTS);
  if (plan.userns_first) space(layer::userns, CLONE_NEWUSER);

  // No handler of this process may run in the child.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  const long pid = syscall(SYS_clone, flags, nullptr, &pidfd, nullptr, nullptr);
  if (pid == 0) {
    close(go[1]);
    live(plan, go[0], argv, envp);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    errno = error;
    return base::fail_errno("clone");
  }
  child.pid = static_cast<int>(pid);
  child.pidfd.reset(pidfd);
  return child;
}

base::expected<birth> release(embryo& child, const setup_plan& plan, const cgroup_leaf* group,
                              stillbirth* why) {
  if (plan.userns_first && plan.want.has(layer::userns) &&
      !write_id_maps(child.pid, plan.drop_uid, plan.uid)) {
    auto error = base::fail_errno("writing the user namespace's maps");
    bury(child);
    if (why != nullptr) {
      why->failure.emplace();
      why->failure->which = layer::userns;
      why->failure->error = EPERM;
    }
    return error;
  }
  if (group != nullptr)
    if (auto moved = group->add(child.pid); !moved) {
      bury(child);
      return tl::make_unexpected(moved.error());
    }
  if (send(child.go.get(), "g", 1, MSG_NOSIGNAL) != 1) {
    bury(child);
    return base::fail(base::errc::io, "a sandboxed child ended before it began");
  }
  birth result;
  message report;
  bool ready = false;
  while (receive(child.report.get(), report, result.work)) {
    if (!report.ready) {
      bury(child);
      if (why != nullptr) why->failure = report.failure;
      return base::fail(base::errc::unavailable, "sandbox: {} ({}): {}", report.failure.step,
                        name_of(report.failure.which), std::strerror(report.failure.error));
    }
    ready = true;
    result.layers = layer_set::from_bits(report.layers);
  }
  if (!ready) {
    bury(child);
    return base::fail(base::errc::io, "a sandboxed child ended before it reported");
  }
  return result;
}

}  // namespace quern::env
