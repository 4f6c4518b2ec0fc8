// Headers that are read ahead: who makes them, and where they are kept.
#include "env/lanes/pytorch/build/headers_ahead.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/measuring_cores.hpp"
#include "env/lanes/pytorch/build/extension_job.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::int64_t{512} << 20;  // of each
constexpr double most_s = 120, look_again_s = 0.1;
/// Folders of other compilers and texts that nobody has used for so long are removed.
constexpr auto kept_unused = std::chrono::hours(24 * 30);
constexpr const char* lock_name = "lock";

fs::path header_of(const fs::path& folder, const char* level) {
  return folder / level / precompiled_header;
}

bool all_there(const fs::path& folder) {
  return std::ranges::all_of(precompiled_levels, [&](const char* level) {
    std::error_code error;
    return fs::exists(header_of(folder, level), error);
  });
}

void remove_unused(const fs::path& folder) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (const auto& other : fs::directory_iterator(folder.parent_path(), error)) {
    const auto used = fs::last_write_time(other.path() / lock_name, error);
    if (!error && other.path() != folder && now - used > kept_unused)
      fs::remove_all(other.path(), error);
  }
}

/// Whole or not at all.
base::status copy_to(int from, const fs::path& to) {
  struct stat info {};
  if (fstat(from, &info) != 0) return base::fail_errno("looking at a precompiled header");
  const fs::path temporary = fmt::format("{}.{}", to.string(), getpid());
  const base::unique_fd out(
      open(temporary.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0444));
  if (!out) return base::fail_errno(fmt::format("making {}", temporary.string()));
  for (off_t at = 0; at < info.st_size;) {
    const ssize_t sent =
        sendfile(out.get(), from, &at, static_cast<std::size_t>(info.st_size - at));
    if (sent > 0) continue;
    const auto why = base::fail_errno(fmt::format("writing {}", temporary.string()));
    unlink(temporary.c_str());
    return why;
  }
  if (rename(temporary.c_str(), to.c_str()) != 0)
    return base::fail_errno(fmt::format("renaming {}", temporary.string()));
  return {};
}

}  // namespace

headers_ahead::headers_ahead(spawner& children, child_spec spec, fs::path folder)
    : children_(children),
      spec_(std::move(spec)),
      folder_(std::move(folder)),
      maker_([this](const std::stop_token& over) {
        const base::off_measuring_cores beside;
        made_ = make(over);
        if (!made_ && !over.stop_requested())
          base::log_warn("pytorch", "C++ files of extensions take longer to build: {}",
                         made_.error().message);
      }) {}

base::status headers_ahead::wait() {
  if (maker_.joinable()) maker_.join();
  return made_;
}

base::status headers_ahead::make(const std::stop_token& over) {
  for (const char* level : precompiled_levels)
    QUERN_CHECK(base::make_folders(header_of(folder_, level).parent_path()));
  const base::unique_fd lock(
      open((folder_ / lock_name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (!lock) return base::fail_errno(fmt::format("opening {}", (folder_ / lock_name).string()));
  futimens(lock.get(), nullptr);  // used now
  if (all_there(folder_)) return {};
  remove_unused(folder_);
  // Who comes second waits for the first, and finds them there.
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (over.stop_requested()) return base::fail(base::errc::unavailable, "it was ended");
    std::this_thread::sleep_for(std::chrono::duration<double>(look_again_s));
  }
  return all_there(folder_) ? base::status() : run(over);
}

base::status headers_ahead::run(const std::stop_token& over) {
  std::error_code error;
  const auto needed = static_cast<std::uintmax_t>(most_bytes) * precompiled_levels.size();
  for (const fs::path& place : {folder_, fs::temp_directory_path(error)})
    if (fs::space(place, error).available < needed)
      return base::fail(base::errc::exhausted, "{} has less than {} bytes free", place.string(),
                        needed);
  spec_.limits.wall_s = spec_.limits.cpu_s = most_s;
  spec_.limits.file_bytes = most_bytes;
  spec_.limits.work_bytes = static_cast<std::int64_t>(needed);
  QUERN_TRY(auto process, children_.spawn(spec_));
  std::optional<child_end> end;
  while (!(end = process->wait(look_again_s)))
    if (over.stop_requested()) end = process->kill();
  if (!end->succeeded())
    return base::fail(base::errc::unavailable, "reading quern_host.h ahead: {}; {}", end->text(),
                      useful_text(process->captured_err(), 1000));
  for (const char* level : precompiled_levels) {
    const base::unique_fd made(
        openat(process->work_folder(), level, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!made) return base::fail_errno(fmt::format("opening {} of a compiler", level));
    QUERN_CHECK(copy_to(made.get(), header_of(folder_, level)));
  }
  return {};
}

}  // namespace quern::env
