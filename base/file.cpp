#include "base/file.hpp"

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::base {
namespace fs = std::filesystem;

void unique_fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

expected<std::string> read_file(const fs::path& path, std::size_t limit) {
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    // ENOTDIR: what should be its folder is a file.
    if (errno == ENOENT || errno == ENOTDIR)
      return fail(errc::not_found, "{} is not there", path.string());
    return fail_errno("cannot open " + path.string());
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return fail_errno("cannot look at " + path.string());
  if (S_ISDIR(info.st_mode)) {
    return fail(errc::invalid_argument, "{} is a folder, a file is needed", path.string());
  }
  const auto too_large = [&] {
    return fail(errc::invalid_argument, "{} is larger than the {} bytes that are read here",
                path.string(), limit);
  };
  const auto size = static_cast<std::size_t>(info.st_size > 0 ? info.st_size : 0);
  if (size > limit) return too_large();
  std::string content;
  content.reserve(size);
  char buffer[65536];
  while (true) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("cannot read " + path.string());
    if (count == 0) return content;
    content.append(buffer, static_cast<std::size_t>(count));
    if (content.size() > limit) return too_large();
  }
}

namespace {

/// " /PATH" of a file that is open; empty for what has no path, such as a socket. Leaves errno as
/// it is.
std::string path_behind(int fd) {
  const int number = errno;
  char path[4096];
  const ssize_t count =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  errno = number;
  const bool is_path = count > 0 && path[0] == '/';
  return is_path ? " " + std::string(path, static_cast<std::size_t>(count)) : std::string();
}

}  // namespace

status write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("cannot write" + path_behind(fd));
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

status sync_folder(const fs::path& folder) {
  const unique_fd handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle) return fail_errno("cannot open folder " + folder.string());
  if (::fsync(handle.get()) != 0) return fail_errno("cannot sync folder " + folder.string());
  return {};
}

status make_folders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return fail(errc::io, "cannot make folder {}: {}", folder.string(), code.message());
  return {};
}

status write_file_atomic(const fs::path& path, std::string_view content) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::string temporary = (folder / ("." + path.filename().string() + ".XXXXXX")).string();
  const unique_fd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return fail_errno("cannot write beside " + path.string());
  const auto give_up = [&](std::string_view doing) {
    auto result = fail_errno(std::string(doing) + " " + path.string());
    ::unlink(temporary.c_str());
    return result;
  };
  if (!write_all(file.get(), content)) return give_up("cannot write");
  if (::fchmod(file.get(), 0644) != 0) return give_up("cannot set the mode of");
  if (::fsync(file.get()) != 0) return give_up("cannot sync");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up("cannot rename to");
  return sync_folder(folder);
}

fs::path user_cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value != nullptr ? value : "");
  };
  fs::path root = variable("XDG_CACHE_HOME");
  if (!root.is_absolute()) root = variable("HOME") / ".cache";
  if (!root.is_absolute()) return {};
  const fs::path folder = root / "quern";
  std::error_code code;
  fs::create_directories(root, code);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return {};
  struct stat info {};
  const bool ours = ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                    info.st_uid == ::geteuid() && (info.st_mode & 022) == 0;
  return ours ? folder : fs::path();
}

namespace {

fs::path folder_for_temporaries() {
  const char* root = std::getenv("TMPDIR");
  return root != nullptr && *root != '\0' ? root : "/tmp";
}

constexpr std::string_view held_suffix = "-held.";

/// Open, and locked for this process alone; none where another one holds it. A process that is
/// forked off and becomes another program holds it no longer.
unique_fd lock_of_folder(const fs::path& folder) {
  unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.reset();
  return fd;
}

/// Of this user, of processes that are gone.
void remove_abandoned(const std::string& prefix) {
  // A folder has no lock yet for a moment after it was made.
  constexpr std::time_t youngest_s = 10;
  std::error_code code;
  std::vector<fs::path> abandoned;
  for (auto at = fs::directory_iterator(folder_for_temporaries(), code);
       !code && at != fs::directory_iterator(); at.increment(code)) {
    struct stat info {};
    if (!at->path().filename().string().starts_with(prefix) ||
        ::lstat(at->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
        info.st_uid != ::geteuid() || std::time(nullptr) - info.st_mtime < youngest_s)
      continue;
    abandoned.push_back(at->path());
  }
  for (const fs::path& folder : abandoned)
    if (const unique_fd lock = lock_of_folder(folder)) fs::remove_all(folder, code);
}

}  // namespace

expected<temp_folder> temp_folder::make_held(std::string_view prefix) {
  static std::mutex guard;
  static std::set<std::string> cleared;
  const std::string held = std::string(prefix) + std::string(held_suffix);
  {
    const std::lock_guard lock(guard);
    if (cleared.insert(held).second) remove_abandoned(held);
  }
  QUERN_TRY(temp_folder made, make(held.substr(0, held.size() - 1)));
  made.lock_ = lock_of_folder(made.path_);
  // Where folders cannot be locked (some network file systems) none is taken for abandoned.
  return made;
}

expected<temp_folder> temp_folder::make(std::string_view prefix) {
  std::string name = (folder_for_temporaries() / (std::string(prefix) + ".XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) return fail_errno("cannot make a folder like " + name);
  return temp_folder(fs::path(name));
}

temp_folder& temp_folder::operator=(temp_folder&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    lock_ = std::move(other.lock_);
  }
  return *this;
}

void temp_folder::remove() noexcept {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace quern::base
