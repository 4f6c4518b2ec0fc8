// Says where a benchmark stands while it judges.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::tools {

/// Writes whole lines to stderr (base::print_line), on a terminal as in a log: a line that were
/// overwritten in place would leave the cursor behind it, and the next log line would run into it.
/// The first verdict writes one, then one each 10 s at most, and the last verdict. Not thread-safe.
class bench_progress {
 public:
  /// `before` of `all` verdicts were there at the start, `successes` of them `ok`. The clock must
  /// outlive this.
  bench_progress(const base::clock& clock, std::int64_t all, std::int64_t before,
                 std::int64_t successes)
      : clock_(clock), all_(all), done_(before), successes_(successes), begun_(clock.now_ns()) {}

  void add(const env::verdict& v);

 private:
  const base::clock& clock_;
  std::int64_t all_, done_, successes_, fresh_ = 0;
  base::nanoseconds_t begun_, told_ = 0;
};

}  // namespace quern::tools
