#include "actors/decide/time_left.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quern::actors {

std::string time_left_text(base::nanoseconds_t elapsed, std::size_t done, std::size_t all) {
  if (done == 0 || done >= all || elapsed <= 0) return "";
  const double each = static_cast<double>(elapsed) * 1e-9 / static_cast<double>(done);
  const double seconds = each * static_cast<double>(all - done);
  if (seconds >= 60) return fmt::format("about {:.0f} min left", seconds / 60);
  return fmt::format("about {:.0f} s left", 10 * std::max(1.0, std::round(seconds / 10)));
}

}  // namespace quern::actors
