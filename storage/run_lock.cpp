#include "storage/run_lock.hpp"

#include <csignal>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace quern::storage {
namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// What the holder wrote about itself; null where that is nothing sensible.
base::json note_of(const std::filesystem::path& file) {
  const auto text = base::read_file(file, 4096);
  const auto note = text ? base::parse_json(*text) : base::expected<base::json>(base::json());
  return note && note->is_object() ? *note : base::json();
}

/// "process 12 on host x, incarnation 3, for 5 min", as far as the file tells.
std::string holder(const base::json& note) {
  if (note.is_null()) return "another process";
  std::string who = "another process";
  if (const auto pid = base::get<std::int64_t>(note, "pid")) who = fmt::format("process {}", *pid);
  if (const auto host = base::get<std::string>(note, "host")) who += " on " + *host;
  if (const auto incarnation = base::get<std::int64_t>(note, "incarnation");
      incarnation && *incarnation > 0) {
    who += fmt::format(", incarnation {}", *incarnation);
  }
  if (const auto since = base::get<std::int64_t>(note, "since_ns")) {
    who += fmt::format(", for {}", base::human_duration(base::unix_time_ns() - *since));
  }
  return who;
}

/// A reader that asks (`is_locked`) holds a shared lock for some microseconds: it must not turn a
/// writer away.
bool flock_soon(int fd) {
  constexpr int tries = 10;
  for (int i = 0; i < tries; ++i) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (i + 1 < tries) ::usleep(2000);
  }
  return false;
}

/// Whether it has ended, though nobody may have asked how.
bool has_ended(std::int64_t pid) {
  if (::kill(static_cast<pid_t>(pid), 0) != 0) return errno == ESRCH;
  const auto stat = base::read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!stat) return false;
  // "4711 (name) Z ...": the name may hold anything.
  const auto name_ends = stat->rfind(')');
  return name_ends != std::string::npos && stat->substr(name_ends + 1, 2) == " Z";
}

/// Whether the holder was a process of this host and is no more.
bool is_gone(const base::json& note) {
  if (note.is_null()) return false;
  const auto pid = base::get<std::int64_t>(note, "pid");
  const auto host = base::get<std::string>(note, "host");
  return pid && *pid > 0 && host && *host == host_name() && has_ended(*pid);
}

/// A process that is killed while it starts another leaves a child that has not come to exec and
/// has its descriptors until then: on a busy host longer than a reader takes.
bool flock_after_the_dead(int fd, const std::filesystem::path& file, base::nanoseconds_t patience) {
  const base::steady_clock time;
  const auto start = time.now_ns();
  while (!flock_soon(fd)) {
    if (errno != EWOULDBLOCK) return false;
    if (!is_gone(note_of(file)) || time.now_ns() - start >= patience) {
      errno = EWOULDBLOCK;
      return false;
    }
  }
  return true;
}

}  // namespace

base::expected<run_lock> run_lock::take(const std::filesystem::path& file,
                                        base::nanoseconds_t patience) {
  base::unique_fd handle(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!handle) return base::fail_errno("cannot open " + file.string());
  if (!flock_after_the_dead(handle.get(), file, patience)) {
    if (errno != EWOULDBLOCK) return base::fail_errno("cannot lock " + file.string());
    const auto note = note_of(file);
    if (is_gone(note))
      return base::fail(base::errc::conflict,
                        "{} was locked by {}, which has ended, and a child of it still has the "
                        "lock: end that one (fuser {}), or wait until it ends",
                        file.string(), holder(note), file.string());
    return base::fail(base::errc::conflict,
                      "{} is locked by {}: pause or stop that run first, or wait until it ends",
                      file.string(), holder(note));
  }
  run_lock lock(std::move(handle));
  lock.since_ns_ = base::unix_time_ns();
  QUERN_CHECK(lock.note_incarnation(0));
  return lock;
}

base::status run_lock::note_incarnation(std::int64_t incarnation) {
  base::ordered_json note;
  note["pid"] = ::getpid();
  note["host"] = host_name();
  note["incarnation"] = incarnation;
  note["since_ns"] = since_ns_;
  // The file itself carries the lock: it is rewritten, never replaced.
  if (::ftruncate(file_.get(), 0) != 0 || ::lseek(file_.get(), 0, SEEK_SET) != 0) {
    return base::fail_errno("cannot rewrite LOCK");
  }
  return base::write_all(file_.get(), base::dump(note) + "\n");
}

base::expected<bool> is_locked(const std::filesystem::path& file) {
  const base::unique_fd handle(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!handle && errno == ENOENT) return false;
  if (!handle) return base::fail_errno("cannot open " + file.string());
  if (::flock(handle.get(), LOCK_SH | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  return base::fail_errno("cannot ask for the lock of " + file.string());
}

}  // namespace quern::storage
