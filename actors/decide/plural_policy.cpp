// Restarts, setting aside, and the end for want of any.
#include "actors/decide/plural_policy.hpp"

#include <algorithm>
#include <utility>

namespace quern::actors {

plural_policy::decision plural_policy::died(const std::string& process, nanoseconds_t now) {
  const auto again = restarts_.died(process, now);
  record& known = processes_[process];
  died_since_ = true;
  // One that was set aside has to show that it lives before it is started at once again.
  const bool on_trial = known.pause_ns > 0 && now - known.tried_at < limits_.restarts.window_ns;
  if (again.restart && !on_trial) {
    known = {};
    return {again.delay_ns, false, again.deaths, false};
  }
  known.aside = true;
  known.pause_ns = known.pause_ns == 0 ? limits_.aside_ns
                                       : std::min(2 * known.pause_ns, limits_.longest_aside_ns);
  known.tried_at = now + known.pause_ns;
  const auto aside = std::count_if(processes_.begin(), processes_.end(),
                                   [](const auto& one) { return one.second.aside; });
  const bool hopeless = !ever_present_ && static_cast<std::size_t>(aside) >= expected_;
  return {known.pause_ns, true, again.deaths, hopeless};
}

bool plural_policy::joined(const std::string& process) {
  const auto known = processes_.find(process);
  return known != processes_.end() && std::exchange(known->second.aside, false);
}

void plural_policy::present(std::size_t count, bool quarantined, nanoseconds_t now) {
  quarantined_ = quarantined;
  // One that has never worked counts as well: its fault is known, unlike that of one not here.
  ever_present_ = ever_present_ || quarantined;
  if (count > 0) {
    ever_present_ = true;
    absent_since_.reset();
    died_since_ = false;
  } else if (ever_present_ && !absent_since_) {
    absent_since_ = now;
  }
}

void plural_policy::needed(bool now_needed, nanoseconds_t now) {
  if (now_needed && !needed_) needed_since_ = now;
  needed_ = now_needed;
}

std::optional<nanoseconds_t> plural_policy::gives_up_at() const {
  // Nobody but us knows of hosts that come from elsewhere: without a death of ours they are waited
  // for.
  if (!is_needed() || !absent_since_ || (!died_since_ && !quarantined_)) return std::nullopt;
  return std::max(*absent_since_, needed_since_) + limits_.absence_ns;
}

bool plural_policy::absent_for_long(nanoseconds_t now) const {
  const auto end = gives_up_at();
  return end && now >= *end;
}

}  // namespace quern::actors
