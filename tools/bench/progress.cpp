#include "tools/bench/progress.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "tools/bench/report_forms.hpp"
#include "tools/bench/results.hpp"

namespace quern::tools {

using base::operator""_s;

void bench_progress::add(const env::verdict& v) {
  done_ += is_final(v) ? 1 : 0;
  successes_ += v.kind == env::verdict_kind::ok ? 1 : 0;
  const base::nanoseconds_t now = clock_.now_ns();
  if (++fresh_ > 1 && now - told_ < 10_s && done_ < all_) return;
  told_ = now;
  base::print_line(
      fmt::format("quern bench: {}", progress_line(done_, all_, fresh_, successes_, now - begun_)));
}

}  // namespace quern::tools
