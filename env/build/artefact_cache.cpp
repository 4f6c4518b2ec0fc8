// A folder of compiled artefacts under the hash of what they were made from.
#include "env/build/artefact_cache.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

// How many entries are stored between two looks at the size of the whole.
constexpr std::uint64_t trim_every = 256;

}  // namespace

fs::path artefact_cache::path_of(const base::hash128& key) const {
  const std::string name = base::to_hex(key);
  return folder_ / name.substr(0, 2) / (name + ".so");
}

std::optional<fs::path> artefact_cache::find(const base::hash128& key) {
  fs::path path = path_of(key);
  // The time of last use is what trim() goes by; where the folder is not ours it stays as it is.
  if (access(path.c_str(), R_OK) != 0) return std::nullopt;
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return path;
}

base::expected<fs::path> artefact_cache::store(const base::hash128& key, int fd,
                                               std::int64_t limit) {
  static std::atomic<std::uint64_t> counter{0};
  struct stat info {};
  if (fstat(fd, &info) != 0) return base::fail_errno("looking at a compiled artefact");
  if (!S_ISREG(info.st_mode) || info.st_size > limit)
    return base::fail(base::errc::exhausted, "the artefact has {} bytes, the limit is {}",
                      info.st_size, limit);
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t at = 0;
  while (at < content.size()) {
    const ssize_t got = pread(fd, content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (got <= 0) return base::fail_errno("reading a compiled artefact");
    at += static_cast<std::size_t>(got);
  }
  const fs::path path = path_of(key);
  QUERN_CHECK(base::make_folders(path.parent_path()));
  // No sync: an entry lost in a crash is compiled again. The name is written by nobody else.
  const fs::path temporary =
      path.parent_path() / fmt::format(".{}-{}-{}", base::to_hex(key), getpid(), counter++);
  {
    const base::unique_fd out(
        open(temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444));
    if (!out) return base::fail_errno(fmt::format("making {}", temporary.string()));
    if (auto written = base::write_all(out.get(), content); !written) {
      unlink(temporary.c_str());
      return tl::make_unexpected(written.error());
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0)
    return base::fail_errno(fmt::format("renaming {}", temporary.string()));
  bool full_look = false;
  {
    const std::lock_guard lock(mutex_);
    full_look = ++stored_ % trim_every == 0;
  }
  if (full_look) trim();
  return path;
}

void artefact_cache::trim() {
  struct entry {
    fs::file_time_type used;
    std::uintmax_t bytes;
    fs::path path;
  };
  std::vector<entry> entries;
  std::uintmax_t total = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;  // another process may be trimming too
    if (!it->is_regular_file(gone)) continue;
    entry item{it->last_write_time(gone), it->file_size(gone), it->path()};
    if (gone) continue;
    total += item.bytes;
    entries.push_back(std::move(item));
  }
  std::sort(entries.begin(), entries.end(),
            [](const entry& left, const entry& right) { return left.used < right.used; });
  for (const entry& item : entries) {
    if (total <= static_cast<std::uintmax_t>(max_bytes_)) return;
    if (fs::remove(item.path, error)) total -= item.bytes;
  }
}

}  // namespace quern::env
