// All children of this process.
#include "base/children.hpp"

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::base {
namespace {

/// By /proc/PID/stat: "PID (name) state parent ..."; the name may hold anything.
bool is_child(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return false;
  const auto close = text->rfind(')');
  if (close == std::string::npos || close + 4 >= text->size()) return false;
  pid_t parent = -1;
  const char* number = text->data() + close + 4;
  std::from_chars(number, text->data() + text->size(), parent);
  return parent == ::getpid();
}

/// The number may be another process's by now: the descriptor is opened first, and what is a child
/// after that was one when it was opened, or is one that took its number and is hit as well.
void kill_if_child(pid_t pid) {
  const unique_fd held(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (held && is_child(pid)) ::syscall(SYS_pidfd_send_signal, held.get(), SIGKILL, nullptr, 0);
}

}  // namespace

void kill_children() {
  DIR* processes = ::opendir("/proc");
  if (processes == nullptr) return;
  while (const dirent* entry = ::readdir(processes)) {
    const std::string_view name = entry->d_name;
    pid_t pid = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) kill_if_child(pid);
  }
  ::closedir(processes);
}

}  // namespace quern::base
