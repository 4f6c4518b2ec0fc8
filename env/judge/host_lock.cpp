// Locks among the processes of this host.
#include "env/judge/host_lock.hpp"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/thread_deadline.hpp"

namespace quern::env {

std::filesystem::path host_lock_folder() {
  struct stat info {};
  constexpr mode_t for_all = S_IWOTH | S_ISVTX;
  const bool usable =
      stat("/run/lock", &info) == 0 && S_ISDIR(info.st_mode) && (info.st_mode & for_all) == for_all;
  return usable ? "/run/lock" : "/tmp";
}

base::expected<base::unique_fd> open_host_lock(const std::string& name) {
  const auto path = host_lock_folder() / ("quern-" + name);
  base::unique_fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  // In a sticky folder another user's file may be opened, but not with O_CREAT.
  if (!fd && errno == EACCES) fd.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return base::fail_errno(fmt::format("opening {}", path.string()));
  fchmod(fd.get(), 0666);
  return fd;
}

bool try_host_lock(const base::unique_fd& lock) {
  return flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

void give_back_host_lock(const base::unique_fd& lock) {
  if (lock) (void)flock(lock.get(), LOCK_UN);
}

bool wait_for_host_lock(const base::unique_fd& lock, double seconds) {
  const base::steady_clock clock;
  seconds = base::thread_deadline::at_most(seconds);
  return wait_for_lock([&] { return try_host_lock(lock); },
                       clock.now_ns() + static_cast<base::nanoseconds_t>(seconds * 1e9), clock);
}

bool wait_for_lock(const std::function<bool()>& taken, base::nanoseconds_t deadline,
                   const base::clock& clock) {
  constexpr timespec step{0, 2'000'000};
  while (!taken()) {
    // By the clock: on a busy machine a sleep takes many times what was asked for.
    if (clock.now_ns() >= deadline) return false;
    nanosleep(&step, nullptr);
  }
  return true;
}

}  // namespace quern::env
