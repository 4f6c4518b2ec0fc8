// SIGINT, SIGTERM and SIGHUP as something to wait for: all mean pause.
#pragma once

#include <signal.h>

#include "base/file.hpp"

namespace quern::base {

/// Blocks the signals in this thread and in all that are made after it; children that are started
/// with base::subprocess get them unblocked. Restores the former state at the end. SIGHUP stays
/// ignored where it is (nohup).
class pause_signals {
 public:
  pause_signals();
  ~pause_signals();
  pause_signals(const pause_signals&) = delete;
  pause_signals& operator=(const pause_signals&) = delete;

  /// Waits up to `milliseconds` for one.
  bool arrived(int milliseconds);

 private:
  sigset_t set_{};
  sigset_t before_{};
  unique_fd fd_;
};

}  // namespace quern::base
