#include "actors/decide/evaluation_set_line.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/decide/time_left.hpp"

namespace quern::actors {

std::string evaluation_set_line(const evaluation_set_progress& at) {
  if (at.timed < at.to_time)
    return fmt::format("evaluation set: {} of {} kernels timed that prompts show", at.timed,
                       at.to_time);
  const std::size_t done = (at.last ? at.all : 0) + std::min(at.answered, at.all);
  const std::string left = time_left_text(at.elapsed, done, 2 * at.all);
  return fmt::format("evaluation set: {} of {} prompts answered by the {} weights{}{}", at.answered,
                     at.all, at.last ? "last" : "first", left.empty() ? "" : ", ", left);
}

}  // namespace quern::actors
