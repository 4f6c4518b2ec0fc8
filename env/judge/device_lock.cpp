// The locks of a GPU among the processes of this host, on its device node.
#include "env/judge/device_lock.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>

#include "env/judge/host_lock.hpp"
#include "env/sandbox/gpu_access.hpp"

namespace quern::env {
namespace {

const char* name_of(device_lock::use what) {
  switch (what) {
    case device_lock::use::busy:
      return "busy";
    case device_lock::use::queue:
      return "queue";
    case device_lock::use::quiet:
      return "quiet";
  }
  return "";
}

std::int64_t byte_of(device_lock::use what) {
  return static_cast<std::int64_t>(what);
}

struct flock range_of(std::int64_t byte, int type) {
  struct flock range {};
  range.l_type = static_cast<short>(type);
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return range;
}

/// Systems that emulate the calls may know no locks of open file descriptions.
bool has_byte_locks(const base::unique_fd& file, std::int64_t byte) {
  struct flock range = range_of(byte, F_WRLCK);
  return fcntl(file.get(), F_OFD_GETLK, &range) == 0;
}

}  // namespace

base::expected<device_lock> device_lock::open(const std::string& bus_id, use what) {
  return open(bus_id, what, gpu_device_node(bus_id));
}

base::expected<device_lock> device_lock::open(const std::string& bus_id, use what,
                                              const std::filesystem::path& node) {
  const std::int64_t byte = byte_of(what);
  if (!node.empty()) {
    base::unique_fd fd(::open(node.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
    if (fd && (byte == 0 || has_byte_locks(fd, byte)))
      return device_lock(std::move(fd), byte, true);
  }
  QUERN_TRY(auto file, open_host_lock(fmt::format("gpu-{}.{}", bus_id, name_of(what))));
  return device_lock(std::move(file), 0, false);
}

int device_lock::apply(int how) const {
  if (byte_ == 0) return flock(file_.get(), how);
  const bool at_once = (how & LOCK_NB) != 0;
  const int wanted = how & ~LOCK_NB;
  struct flock range =
      range_of(byte_, wanted == LOCK_UN ? F_UNLCK : (wanted == LOCK_SH ? F_RDLCK : F_WRLCK));
  return fcntl(file_.get(), at_once ? F_OFD_SETLK : F_OFD_SETLKW, &range);
}

bool device_lock::try_take(share how) const {
  const int kind = how == share::alone ? LOCK_EX : LOCK_SH;
  while (apply(kind | LOCK_NB) != 0)
    if (errno != EINTR) return false;
  return true;
}

bool device_lock::take(share how) const {
  while (apply(how == share::alone ? LOCK_EX : LOCK_SH) != 0)
    if (errno != EINTR) return false;
  return true;
}

bool device_lock::take_before(base::nanoseconds_t deadline, const base::clock& clock) const {
  return wait_for_lock([this] { return try_take(); }, deadline, clock);
}

void device_lock::give_back() const {
  (void)apply(LOCK_UN);
}

}  // namespace quern::env
