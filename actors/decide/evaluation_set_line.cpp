#include "actors/decide/evaluation_set_line.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/decide/time_left.hpp"

namespace quern::actors {

std::string evaluation_set_line(const evaluation_set_progress& at) {
  if (at.timed < at.to_time)
    return fmt::format("evaluation set: {} of {} shown kernels timed", at.timed, at.to_time);
  const std::size_t done = (at.last ? at.all : 0) + std::min(at.answered, at.all);
  const std::string left = time_left_text(at.elapsed, done, 2 * at.all);
  return fmt::format("evaluation set: {} of {} prompts answered by the {} weights{}{}", at.answered,
                     at.all, at.last ? "last" : "first", left.empty() ? "" : ", ", left);
}

evaluation_set_position::evaluation_set_position(const base::clock& clock, std::size_t all)
    : clock_(clock), begin_(clock.now_ns()) {
  at_.all = all;
}

void evaluation_set_position::on_timed(std::size_t timed, std::size_t all) {
  const std::lock_guard lock(guard_);
  at_.timed = timed;
  at_.to_time = all;
  if (timed == all) begin_ = clock_.now_ns();
}

void evaluation_set_position::on_half(bool last) {
  const std::lock_guard lock(guard_);
  at_.last = last;
  at_.answered = 0;
}

void evaluation_set_position::on_answered(std::size_t answered) {
  const std::lock_guard lock(guard_);
  at_.answered = answered;
}

std::string evaluation_set_position::line() const {
  const std::lock_guard lock(guard_);
  evaluation_set_progress at = at_;
  at.elapsed = clock_.now_ns() - begin_;
  return evaluation_set_line(at);
}

}  // namespace quern::actors
