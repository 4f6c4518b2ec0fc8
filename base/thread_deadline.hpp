// A limit on the work of one thread, for waits that lie far below the code that sets it.
#pragma once

#include <optional>

#include "base/clock.hpp"

namespace quern::base {

/// While it lives, waits of its thread that ask at_most() end when the time is over. Where several
/// live, the earliest end counts. Made and destroyed on one thread, the last made first.
class thread_deadline {
 public:
  /// `seconds` from now; 0: no limit of its own.
  explicit thread_deadline(double seconds);
  ~thread_deadline();
  thread_deadline(const thread_deadline&) = delete;
  thread_deadline& operator=(const thread_deadline&) = delete;

  /// Seconds that the calling thread has left, at least 0; nothing where it has no limit.
  static std::optional<double> left_s();
  /// Whether the calling thread has a limit that is over.
  static bool is_over();
  /// `seconds`, or what the calling thread has left where that is less.
  static double at_most(double seconds);

 private:
  std::optional<nanoseconds_t> before_;  ///< the end that counted when this was made
};

}  // namespace quern::base
