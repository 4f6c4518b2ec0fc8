// A process with a mount namespace of its own, for tests that need a file system of a given size.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::test {

/// Mounts a memory file system at `folder` for this process alone, which has one thread. `options`
/// as for mount -o: "size=64m". False: this host does not allow it.
inline bool mount_for_myself(const std::filesystem::path& folder, const std::string& options) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (user == 0) {
    if (unshare(CLONE_NEWNS) != 0) return false;
  } else {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    const auto write = [](const char* file, const std::string& text) {
      const base::unique_fd fd(open(file, O_WRONLY | O_CLOEXEC));
      return fd && base::write_all(fd.get(), text).has_value();
    };
    if (!write("/proc/self/setgroups", "deny") ||
        !write("/proc/self/uid_map", "0 " + std::to_string(user) + " 1") ||
        !write("/proc/self/gid_map", "0 " + std::to_string(group) + " 1"))
      return false;
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

/// What `body` returns in a forked process in which `folder` is a memory file system of its own.
/// "threw" where it throws: it must not check anything itself. None: this host does not allow it.
inline std::optional<std::string> with_memory_file_system(
    const std::filesystem::path& folder, const std::string& options,
    const std::function<std::string()>& body) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  base::unique_fd from(ends[0]), to(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    if (!mount_for_myself(folder, options)) _exit(1);
    std::string told = "threw";
    try {
      told = body();
    } catch (...) {
    }
    _exit(base::write_all(to.get(), told) ? 0 : 2);
  }
  to.reset();
  std::string told;
  char block[4096];
  for (ssize_t got = 0; (got = read(from.get(), block, sizeof block)) > 0;)
    told.append(block, static_cast<std::size_t>(got));
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return "killed";
  if (WEXITSTATUS(status) == 1) return std::nullopt;
  return told;
}

}  // namespace quern::test
