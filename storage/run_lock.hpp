// RUN/LOCK: one control process a run. A lock of Linux (flock), so that it is free the moment its
// holder dies; the text in the file is for people.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/status.hpp"

namespace quern::storage {

/// Held until destroyed. The descriptor is close-on-exec; a child that is forked and does not exec
/// must call `forget`, or the lock lives on in it.
class run_lock {
 public:
  /// `conflict` when another process holds it, saying which, since when and in which incarnation.
  /// If that one is dead, a child of its own may have the lock for a moment: it waits for that, at
  /// most `patience`.
  static base::expected<run_lock> take(const std::filesystem::path& file,
                                       base::nanoseconds_t patience = 5'000'000'000);

  /// Notes the incarnation in the file.
  base::status note_incarnation(std::int64_t incarnation);

  /// In a forked child: gives up the descriptor without unlocking the parent's lock.
  void forget() { file_.reset(); }

 private:
  explicit run_lock(base::unique_fd file) : file_(std::move(file)) {}
  base::unique_fd file_;
  std::int64_t since_ns_ = 0;
};

/// Whether a process holds the lock right now; for readers.
base::expected<bool> is_locked(const std::filesystem::path& file);

}  // namespace quern::storage
