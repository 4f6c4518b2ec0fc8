// How long work of equal pieces still takes.
#pragma once

#include <cstddef>
#include <string>

#include "base/clock.hpp"

namespace quern::actors {

/// "about 4 min left": what `all - done` pieces take if each takes what those that are done took on
/// average, `elapsed` for all of them; in minutes, from one minute on, else in steps of 10 s. Empty
/// before the first piece is done, and when none is left.
std::string time_left_text(base::nanoseconds_t elapsed, std::size_t done, std::size_t all);

}  // namespace quern::actors
