// What people read of a closing comparison while it measures.
#pragma once

#include <cstddef>
#include <string>

#include "base/clock.hpp"

namespace quern::actors {

/// Kernels that prompts show are timed first. Then both halves ask the same `all` prompts: first
/// the first weights, then the last.
struct evaluation_set_progress {
  std::size_t timed = 0;            ///< kernels that prompts show
  std::size_t to_time = 0;          ///< of so many
  bool last = false;                ///< the last weights are being asked, the first have answered
  std::size_t answered = 0;         ///< prompts of this half
  std::size_t all = 0;              ///< prompts of each half
  base::nanoseconds_t elapsed = 0;  ///< since the first half began, the kernels being timed
};

/// "evaluation set: 16 of 64 prompts answered by the first weights, about 7 min left". The time is
/// that of both halves (time_left_text), and is left out before the first answer and after the
/// last. Before: "evaluation set: 24 of 128 kernels timed that prompts show".
std::string evaluation_set_line(const evaluation_set_progress& at);

}  // namespace quern::actors
