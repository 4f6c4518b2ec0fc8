// Processes below this one that end when it says so.
#include "base/children.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::base {
namespace {

/// By /proc/PID/stat: "PID (name) state parent ..."; the name may hold anything.
bool is_child(pid_t parent, pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return false;
  const auto close = text->rfind(')');
  if (close == std::string::npos || close + 4 >= text->size()) return false;
  pid_t found = -1;
  const char* number = text->data() + close + 4;
  std::from_chars(number, text->data() + text->size(), found);
  return found == parent;
}

/// The number may be another process's by now: the descriptor is opened first, and what is a child
/// after that was one when it was opened, or is one that took its number and is meant as well.
unique_fd hold_child(pid_t parent, pid_t pid) {
  unique_fd held(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (held && !is_child(parent, pid)) held.reset();
  return held;
}

void kill_held(const unique_fd& process) {
  if (process) ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

}  // namespace

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void kill_children() {
  adopt_orphans();
  DIR* processes = ::opendir("/proc");
  if (processes == nullptr) return;
  while (const dirent* entry = ::readdir(processes)) {
    const std::string_view name = entry->d_name;
    pid_t pid = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size())
      kill_held(hold_child(::getpid(), pid));
  }
  ::closedir(processes);
}

bool end_children(std::chrono::milliseconds limit) {
  constexpr auto step = std::chrono::milliseconds(5);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    kill_children();
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(step);
  }
}

killed_at_end::killed_at_end(pid_t parent, pid_t pid) : process_(hold_child(parent, pid)) {}

killed_at_end::~killed_at_end() {
  kill_held(process_);
}

}  // namespace quern::base
