// The arithmetic of deterministic mode.
#include "actors/decide/schedule.hpp"

#include <algorithm>

namespace quern::actors {

using base::errc;
using base::fail;

base::expected<schedule> schedule::make(std::int64_t groups_per_step, std::int64_t max_age) {
  if (groups_per_step < 1 || max_age < 0) {
    return fail(errc::invalid_argument,
                "a schedule needs at least 1 group a step and an age of at least 0; got {} and {}",
                groups_per_step, max_age);
  }
  return schedule(groups_per_step, max_age);
}

std::int64_t schedule::step_of(std::int64_t sequence) const {
  return sequence / groups_per_step_;
}

weights_version schedule::version_for(std::int64_t sequence) const {
  return std::max<std::int64_t>(0, step_of(sequence) - max_age_);
}

std::int64_t schedule::archive_horizon(std::int64_t sequence) const {
  return version_for(sequence) * groups_per_step_;
}

bool schedule::may_sample(std::int64_t sequence, weights_version installed) const {
  return installed == version_for(sequence);
}

std::int64_t schedule::first_group(std::int64_t step) const {
  return step * groups_per_step_;
}

base::status issue_order::finish(std::int64_t sequence, group_id group) {
  if (sequence < next_ || !finished_.emplace(sequence, group).second) {
    return fail(errc::conflict, "group {} with number {} was finished before", group, sequence);
  }
  return {};
}

std::vector<group_id> issue_order::take() {
  std::vector<group_id> turn;
  while (!finished_.empty() && finished_.begin()->first == next_) {
    turn.push_back(finished_.begin()->second);
    finished_.erase(finished_.begin());
    ++next_;
  }
  return turn;
}

}  // namespace quern::actors
