// Deaths within a window, and the delay that grows with them.
#include "actors/decide/restart_policy.hpp"

#include <algorithm>

#include "actors/decide/mutation.hpp"

namespace quern::actors {

restart_policy::decision restart_policy::died(const std::string& role, nanoseconds_t now) {
  auto& deaths = deaths_[role];
  while (!deaths.empty() && now - deaths.front() >= limits_.window_ns)
    deaths.pop_front();
  deaths.push_back(now);
  const auto count = static_cast<int>(deaths.size());
  if (count > limits_.most) return {false, 0, count};
  if (mutated(mutation::restarted_at_once)) return {true, 0, count};
  nanoseconds_t delay = limits_.first_delay_ns;
  for (int i = 1; i < count && delay < limits_.longest_delay_ns; ++i)
    delay *= 2;
  return {true, std::min(delay, limits_.longest_delay_ns), count};
}

}  // namespace quern::actors
