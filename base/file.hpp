// Files and descriptors: owned descriptors, bounded reads, writes that are all there or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.hpp"

namespace quern::base {

/// Owns a file descriptor; closes it at the end. Negative: none.
class unique_fd {
 public:
  unique_fd() = default;
  explicit unique_fd(int fd) : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~unique_fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// The whole file; larger than `limit` bytes is an error that names both sizes.
expected<std::string> read_file(const std::filesystem::path& path, std::size_t limit = 64U << 20U);

/// Writes a temporary file beside `path`, syncs it, renames it over `path`, syncs the folder: after
/// a crash there is the old content or the new, nothing between.
status write_file_atomic(const std::filesystem::path& path, std::string_view content);

/// Writes all bytes to a descriptor, through short writes and EINTR. An error names the file that
/// is open.
status write_all(int fd, std::string_view content);

/// fsync of a folder, so that renames and new names in it are durable.
status sync_folder(const std::filesystem::path& folder);

/// mkdir -p; an error names the part that failed.
status make_folders(const std::filesystem::path& folder);

/// The user's folder for what can be made again: $XDG_CACHE_HOME/quern or $HOME/.cache/quern, made
/// with mode 0700. Empty where there is no home, or where the folder is another user's or writable
/// by others.
std::filesystem::path user_cache_folder();

/// A fresh private folder (mode 0700) under TMPDIR or /tmp, deleted with its content at the end.
class temp_folder {
 public:
  static expected<temp_folder> make(std::string_view prefix = "quern");
  /// One that is found again when its process was killed: as long as a process holds it, it holds a
  /// lock on it, and the first call for a prefix in a process is `remove_abandoned` of that prefix,
  /// too. Named PREFIX-held.XXXXXX. Error: unavailable, after `remove_all_held`. Any thread.
  static expected<temp_folder> make_held(std::string_view prefix);
  /// Deletes the held folders of a prefix, of this user, that no process holds; how long ago they
  /// were made does not matter. Where folders cannot be locked (some network file systems) none is
  /// taken for abandoned. Any thread, and beside other processes that make or delete them.
  static void remove_abandoned(std::string_view prefix);
  /// Deletes all held folders of this process, and lets it make no more: for a process that ends
  /// without the destructors of their owners. Any thread.
  static void remove_all_held();
  temp_folder(temp_folder&& other) noexcept
      : path_(std::exchange(other.path_, {})),
        lock_(std::move(other.lock_)),
        held_(std::exchange(other.held_, false)) {}
  temp_folder& operator=(temp_folder&& other) noexcept;
  ~temp_folder() { remove(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit temp_folder(std::filesystem::path path) : path_(std::move(path)) {}
  void remove() noexcept;
  std::filesystem::path path_;
  unique_fd lock_;
  bool held_ = false;  ///< among those that remove_all_held deletes
};

}  // namespace quern::base
