// Which role holds a run back, in one sentence.
#pragma once

#include <string>
#include <vector>

#include "actors/decide/role_times.hpp"

namespace quern::actors {

enum class bottleneck_kind : std::uint8_t {
  unknown,  ///< too little was seen
  nobody,   ///< nobody waits, or each waits for the others in turn
  role,     ///< one role, which hardly ever waits for work while others do
  several,  ///< likewise, more than one
  device    ///< the turns on a device that roles share
};
/// The name of the enumerator.
std::string_view name_of(bottleneck_kind kind);

struct bottleneck {
  bottleneck_kind kind = bottleneck_kind::unknown;
  std::vector<run_role> by;  ///< role, several and device: who; in the order of run_role
  std::string text;          ///< one sentence, without a full stop
};

struct bottleneck_limits {
  nanoseconds_t least_seen = 10'000'000'000;
  /// Of the run's time, each: at most so much without work is hardly ever; at least so much is to
  /// wait; at least so much is to wait for a device. What lies between the first two proves
  /// nothing.
  double hardly = 0.15;
  double waits = 0.25;
  double device = 0.20;
};

/// A role that is not there when it is needed holds the run back like one that is always at work.
/// Control is always there and mostly waits: it may be the one that holds the run back, and never
/// is among those that are held back. A generator whose processor others use counts as at work.
bottleneck find_bottleneck(const loop_time& seen, const bottleneck_limits& limits = {});

/// Of a run whose evaluators are there and take no work, whatever was seen before.
bottleneck held_back_by_quarantine();

/// "room in the staleness window": what follows "waits for"; empty for `unknown`.
std::string_view text_of(role_wait wait);
/// "the evaluators".
std::string_view text_of(run_role role);

}  // namespace quern::actors
