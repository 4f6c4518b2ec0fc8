// Headers that are precompiled: who makes them, and where they are kept.
#include "env/lanes/pytorch/build/headers_ahead.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/measuring_cores.hpp"
#include "env/lanes/pytorch/build/extension_job.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::int64_t{512} << 20;  // of each
constexpr double most_s = 120, look_again_s = 0.1;
constexpr auto kept_unused = std::chrono::hours(24 * 30);
constexpr std::size_t most_folders = 4;
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

/// False: another process has a lock that excludes this one. Error: there are no locks here.
base::expected<bool> try_lock(int lock, int kind) {
  while (flock(lock, kind | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return base::fail_errno("locking a folder of precompiled headers");
  }
  return true;
}

/// What stands beside `folder`, the last one used first.
std::vector<std::pair<fs::file_time_type, fs::path>> folders_beside(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> others;
  std::error_code error;
  for (fs::directory_iterator at(folder.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    std::error_code none;
    const auto used = fs::last_write_time(at->path() / lock_name, none);
    if (!none && at->path() != folder) others.emplace_back(used, at->path());
  }
  std::ranges::sort(others, std::greater<>());
  return others;
}

void remove_unused(const fs::path& folder) {
  const auto now = fs::file_time_type::clock::now();
  const auto others = folders_beside(folder);
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto& [used, other] = others[i];
    if (i + 1 < most_folders && now - used < kept_unused) continue;
    const base::unique_fd lock(open((other / lock_name).c_str(), O_RDWR | O_CLOEXEC));
    if (!lock || !try_lock(lock.get(), LOCK_EX).value_or(false)) continue;
    std::error_code error;
    fs::remove_all(other, error);
  }
}

/// What a process that was killed while it copied has left.
void remove_parts(const fs::path& folder) {
  for (const char* level : precompiled_levels) {
    std::error_code error;
    for (fs::directory_iterator at(folder / level, error), end; !error && at != end;
         at.increment(error)) {
      std::error_code none;
      if (at->path().filename() != precompiled_header) fs::remove(at->path(), none);
    }
  }
}

base::status copy_bytes(int from, int to, const std::stop_token& over) {
  std::string block(std::size_t{1} << 20, '\0');
  for (;;) {
    if (over.stop_requested()) return base::fail(base::errc::unavailable, "it was ended");
    const ssize_t got = read(from, block.data(), block.size());
    if (got < 0) return base::fail_errno("reading a precompiled header");
    if (got == 0) return {};
    QUERN_CHECK(base::write_all(to, {block.data(), static_cast<std::size_t>(got)}));
  }
}

/// Whole or not at all, a crash of the host included.
base::status copy_to(int from, const fs::path& to, const std::stop_token& over) {
  std::string temporary = to.string() + ".XXXXXX";
  const base::unique_fd out(mkostemp(temporary.data(), O_CLOEXEC));
  if (!out) return base::fail_errno(fmt::format("making {}", temporary));
  base::status copied = copy_bytes(from, out.get(), over);
  if (copied && (fchmod(out.get(), 0444) != 0 || fsync(out.get()) != 0 ||
                 rename(temporary.c_str(), to.c_str()) != 0))
    copied = base::fail_errno(fmt::format("storing {}", to.string()));
  if (!copied) unlink(temporary.c_str());
  return copied;
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
  const fs::path name = folder_ / lock_name;
  lock_.reset(open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  // Where nobody can write nobody removes anything, either.
  if (!lock_ && all_there(folder_)) return {};
  if (!lock_) return base::fail_errno(fmt::format("opening {}", name.string()));
  futimens(lock_.get(), nullptr);  // used now
  // Who comes second waits for the first, and finds them there.
  for (;;) {
    if (all_there(folder_)) {
      QUERN_TRY(const bool shared, try_lock(lock_.get(), LOCK_SH));
      if (shared && all_there(folder_)) return {};
    } else {
      QUERN_TRY(const bool alone, try_lock(lock_.get(), LOCK_EX));
      if (alone) break;
    }
    if (over.stop_requested()) return base::fail(base::errc::unavailable, "it was ended");
    std::this_thread::sleep_for(std::chrono::duration<double>(look_again_s));
  }
  remove_unused(folder_);
  remove_parts(folder_);
  if (!all_there(folder_)) QUERN_CHECK(run(over));
  QUERN_TRY(const bool shared, try_lock(lock_.get(), LOCK_SH));
  (void)shared;  // from alone to shared: nobody excludes that
  return {};
}

base::status headers_ahead::run(const std::stop_token& over) {
  std::error_code error;
  const auto needed = static_cast<std::uintmax_t>(most_bytes) * precompiled_levels.size();
  if (const auto there = fs::space(folder_, error); !error && there.available < needed)
    return base::fail(base::errc::exhausted,
                      "{} has {} bytes free, precompiled headers may need {}: make room there, or "
                      "set XDG_CACHE_HOME to a folder that has it",
                      folder_.string(), there.available, needed);
  spec_.limits.wall_s = spec_.limits.cpu_s = most_s;
  spec_.limits.file_bytes = most_bytes;
  spec_.limits.work_bytes = static_cast<std::int64_t>(needed);
  QUERN_TRY(auto process, children_.spawn(spec_));
  std::optional<child_end> end;
  while (!(end = process->wait(look_again_s)))
    if (over.stop_requested()) end = process->kill();
  if (!end->succeeded())
    return base::fail(base::errc::unavailable, "precompiling quern_host.h: {}; {}", end->text(),
                      useful_text(process->captured_err(), 1000));
  for (const char* level : precompiled_levels) {
    const fs::path product = fs::path(level) / precompiled_header;
    const base::unique_fd made(
        openat(process->work_folder(), product.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!made) return base::fail_errno(fmt::format("opening {} of a compiler", product.string()));
    QUERN_CHECK(copy_to(made.get(), header_of(folder_, level), over));
  }
  return {};
}

}  // namespace quern::env
