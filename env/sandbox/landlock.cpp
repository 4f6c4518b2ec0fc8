// Landlock by its raw system calls.
#include "env/sandbox/landlock.hpp"

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quern::env {
namespace {

// Values of Linux's interface (include/uapi/linux/landlock.h), all versions up to 7.
constexpr std::uint64_t execute = 1U << 0U, write_file = 1U << 1U, read_file = 1U << 2U,
                        read_dir = 1U << 3U, truncate_file = 1U << 14U;
constexpr std::uint64_t first_version_rights = (1U << 13U) - 1U;  // execute … make_sym
constexpr std::uint64_t refer = 1U << 13U, ioctl_dev = 1U << 15U;
constexpr std::uint64_t tcp_bind_and_connect = 3U;
constexpr std::uint64_t abstract_sockets_and_signals = 3U;

struct ruleset_attr {
  std::uint64_t files;
  std::uint64_t net;
  std::uint64_t scoped;
};

struct [[gnu::packed]] path_attr {
  std::uint64_t allowed;
  std::int32_t parent;
};

constexpr int rule_path_beneath = 1;
constexpr unsigned ask_version = 1U;

std::uint64_t writing_rights(int abi) {
  // All of the first version but run, read, list; and what came later.
  std::uint64_t all = first_version_rights & ~(execute | read_file | read_dir);
  if (abi >= 2) all |= refer;
  if (abi >= 3) all |= truncate_file;
  return all;
}

std::uint64_t file_rights(int abi) {
  std::uint64_t all = first_version_rights;
  if (abi >= 2) all |= refer;
  if (abi >= 3) all |= truncate_file;
  if (abi >= 5) all |= ioctl_dev;
  return all;
}

}  // namespace

int landlock_version() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, ask_version);
  return version > 0 ? static_cast<int>(version) : 0;
}

int landlock_create(int abi) {
  const ruleset_attr attr{file_rights(abi), abi >= 4 ? tcp_bind_and_connect : 0,
                          abi >= 6 ? abstract_sockets_and_signals : 0};
  const std::size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  return static_cast<int>(syscall(SYS_landlock_create_ruleset, &attr, size, 0));
}

int landlock_create_for_writing(int abi) {
  const ruleset_attr attr{writing_rights(abi), 0, 0};
  // The first member alone: what Landlock of version 1 knows.
  return static_cast<int>(syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.files, 0));
}

bool landlock_allow(int ruleset, int abi, const char* path, landlock_right right) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || errno == ENOTDIR;
  struct stat info {};
  fstat(fd, &info);
  std::uint64_t rights = 0;
  if (right == landlock_right::read_and_run) rights = read_file | execute | read_dir;
  if (right == landlock_right::everything) rights = file_rights(abi);
  if (right == landlock_right::device) rights = read_file | write_file;
  if (right == landlock_right::device_orders)
    rights = (read_file | write_file | ioctl_dev) & file_rights(abi);
  // The driver writes the names of its threads the way that files are written anew.
  if (right == landlock_right::read_and_write)
    rights = (read_file | write_file | read_dir | truncate_file) & file_rights(abi);
  if (right == landlock_right::write_what_is_there)
    rights = (write_file | truncate_file) & file_rights(abi);
  // Linux refuses rights of folders on anything else.
  if (!S_ISDIR(info.st_mode))
    rights &= read_file | write_file | execute | truncate_file | ioctl_dev;
  const path_attr attr{rights, fd};
  const long rc = syscall(SYS_landlock_add_rule, ruleset, rule_path_beneath, &attr, 0);
  const int saved = errno;
  close(fd);
  errno = saved;
  return rc == 0;
}

bool landlock_restrict(int ruleset) {
  return syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
}

}  // namespace quern::env
