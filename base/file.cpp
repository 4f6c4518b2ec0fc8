#include "base/file.hpp"

#include <cerrno>
#include <cstdlib>
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

enum class lock_result { locked, taken, gone, impossible };

/// Locks a folder for this process alone; `lock` is open afterwards only if it is locked. `taken`:
/// another process has it. `gone`: `folder` names another file by now, or none. A process that is
/// forked off and becomes another program holds the lock no longer.
lock_result lock_folder(const fs::path& folder, unique_fd& lock) {
  unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return errno == ENOENT ? lock_result::gone : lock_result::impossible;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? lock_result::taken : lock_result::impossible;
  }
  struct stat locked {
  }, named{};
  if (::fstat(fd.get(), &locked) != 0 || ::lstat(folder.c_str(), &named) != 0 ||
      locked.st_ino != named.st_ino || locked.st_dev != named.st_dev)
    return lock_result::gone;
  lock = std::move(fd);
  return lock_result::locked;
}

/// The held folders of this process, by path.
struct held_folders {
  std::mutex guard;
  std::set<fs::path> paths;
  std::set<std::string> cleared;  ///< prefixes whose abandoned folders were looked for
  bool over = false;
};

held_folders& all_held() {
  // Never destroyed: folders of other static objects may go later.
  static auto* const all = new held_folders;
  return *all;
}

}  // namespace

void temp_folder::remove_abandoned(std::string_view prefix) {
  const std::string start = std::string(prefix) + std::string(held_suffix);
  std::error_code code;
  std::vector<fs::path> candidates;
  for (auto at = fs::directory_iterator(folder_for_temporaries(), code);
       !code && at != fs::directory_iterator(); at.increment(code)) {
    struct stat info {};
    if (at->path().filename().string().starts_with(start) &&
        ::lstat(at->path().c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
        info.st_uid == ::geteuid())
      candidates.push_back(at->path());
  }
  for (const fs::path& folder : candidates) {
    unique_fd lock;
    if (lock_folder(folder, lock) == lock_result::locked) fs::remove_all(folder, code);
  }
}

expected<temp_folder> temp_folder::make_held(std::string_view prefix) {
  held_folders& all = all_held();
  {
    const std::lock_guard lock(all.guard);
    if (all.cleared.insert(std::string(prefix)).second) remove_abandoned(prefix);
  }
  const std::string held = std::string(prefix) + std::string(held_suffix);
  constexpr int most_tries = 100;
  for (int tries = 0; tries < most_tries; ++tries) {
    QUERN_TRY(temp_folder made, make(held.substr(0, held.size() - 1)));
    const lock_result locked = lock_folder(made.path_, made.lock_);
    // Until it is locked it looks abandoned: another process may be at deleting it.
    if (locked == lock_result::taken || locked == lock_result::gone) continue;
    const std::lock_guard lock(all.guard);
    if (all.over) return fail(errc::unavailable, "no folder like {}: this process is ending", held);
    made.held_ = true;
    all.paths.insert(made.path_);
    return made;
  }
  return fail(errc::unavailable,
              "no folder like {}XXXXXX in {}: other processes took {} of them away; end those, or "
              "set TMPDIR to another folder",
              held, folder_for_temporaries().string(), most_tries);
}

void temp_folder::remove_all_held() {
  held_folders& all = all_held();
  const std::lock_guard lock(all.guard);
  all.over = true;
  std::error_code ignored;
  for (const fs::path& folder : all.paths)
    fs::remove_all(folder, ignored);
}

expected<temp_folder> temp_folder::make(std::string_view prefix) {
  std::string name = (folder_for_temporaries() / (std::string(prefix) + ".XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr)
    return fail_errno(fmt::format("cannot make a folder like {} (TMPDIR says where)", name));
  return temp_folder(fs::path(name));
}

temp_folder& temp_folder::operator=(temp_folder&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    lock_ = std::move(other.lock_);
    held_ = std::exchange(other.held_, false);
  }
  return *this;
}

void temp_folder::remove() noexcept {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (!held_) return;
  const std::lock_guard lock(all_held().guard);
  all_held().paths.erase(path_);
}

}  // namespace quern::base
