// How often a process that died is started again, and how soon.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "actors/decide/ids.hpp"

namespace quern::actors {

struct restart_limits {
  int most = 5;  ///< restarts of one role within the window
  nanoseconds_t window_ns = 120'000'000'000;
  nanoseconds_t first_delay_ns = 100'000'000;  ///< doubled with each death in the window
  nanoseconds_t longest_delay_ns = 10'000'000'000;
};

/// The first death in a window is answered after `first_delay`, the n-th after first_delay *
/// 2^(n-1), at most `longest_delay`; the death after `most` restarts within the window is not
/// answered: the run must end with an error that names the role, since a thing that cannot start
/// would otherwise be started for ever. Deaths older than the window are forgotten, and with them
/// the delay. Roles are independent. Not thread-safe.
class restart_policy {
 public:
  explicit restart_policy(restart_limits limits) : limits_(limits) {}

  struct decision {
    bool restart = false;
    nanoseconds_t delay_ns = 0;
    int deaths = 0;  ///< in the window, this one included
  };
  decision died(const std::string& role, nanoseconds_t now);

 private:
  restart_limits limits_;
  std::map<std::string, std::deque<nanoseconds_t>> deaths_;
};

}  // namespace quern::actors
