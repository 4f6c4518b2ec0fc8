// Role `reference` of program quern-torch.
#include "env/reference/reference_role.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <map>
#include <optional>

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.hpp"
#include "env/reference/reference_child.hpp"
#include "env/reference/script.hpp"
#include "env/runner/channel.hpp"

namespace quern::env {
namespace {

/// Children that live, with their control groups, which can be removed only after the child.
using children = std::map<pid_t, std::optional<cgroup_leaf>>;

void reap(children& alive) {
  for (pid_t pid = waitpid(-1, nullptr, WNOHANG); pid > 0; pid = waitpid(-1, nullptr, WNOHANG))
    alive.erase(pid);
}

runner::fork_reply fork_child(const runner::fork_request& request, base::unique_fd socket,
                              const host_facts& facts, children& alive) {
  std::optional<cgroup_leaf> group;
  if (facts.cgroups.version != 0)
    if (auto made = cgroup_leaf::create(facts.cgroups, request.memory_bytes, 4))
      group.emplace(std::move(*made));
  const pid_t pid = fork();
  if (pid < 0) return {-1, errno};
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    _exit(serve_reference(socket.get(), request, facts, group ? &*group : nullptr));
  }
  alive.emplace(pid, std::move(group));
  return {pid, 0};
}

}  // namespace

int reference_main() {
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ended, nullptr);
  const base::unique_fd ended(signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK));
  const host_facts& facts = probe_host();
  const std::string version = prepare_libtorch();
  const int control = runner::socket_fd;
  if (send(control, version.data(), version.size(), MSG_NOSIGNAL) < 0) {
    base::log_error("reference",
                    "nobody listens on descriptor {}: this role is started by an evaluator",
                    control);
    return 2;
  }
  children alive;
  for (;;) {
    std::array<pollfd, 2> wait{{{control, POLLIN, 0}, {ended.get(), POLLIN, 0}}};
    if (poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR) return 1;
    if (wait[1].revents != 0) {
      signalfd_siginfo info;
      while (read(ended.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      }
      reap(alive);
    }
    if (wait[0].revents == 0) continue;
    runner::fork_request request;
    int fd = -1;
    const std::size_t got =
        runner::receive(control, std::as_writable_bytes(std::span(&request, 1)), fd);
    base::unique_fd socket(fd);
    if (got == 0) return 0;  // children see the end of their own sockets, and die with this process
    if (got != sizeof request || !socket) return 1;
    const auto answer = fork_child(request, std::move(socket), facts, alive);
    if (send(control, &answer, sizeof answer, MSG_NOSIGNAL) < 0) return 0;
  }
}

}  // namespace quern::env
