// Accounts of time. Members are summed up as they change, so that a call costs the same however
// many there are.
#include "actors/decide/role_times.hpp"

#include <algorithm>
#include <numeric>

namespace quern::actors {

std::string_view name_of(run_role role) {
  constexpr std::array<std::string_view, run_role_count> names = {"generator", "learner",
                                                                  "evaluator", "control"};
  return names[static_cast<std::size_t>(role)];
}

std::string_view name_of(role_wait wait) {
  constexpr std::array<std::string_view, role_wait_count> names = {
      "unknown", "window", "exemplars", "goal", "groups", "jobs", "messages"};
  return names[static_cast<std::size_t>(wait)];
}

nanoseconds_t role_time::idle() const {
  return std::accumulate(idle_for.begin(), idle_for.end(), nanoseconds_t{0});
}

double role_time::share(nanoseconds_t part) const {
  const nanoseconds_t all = present();
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

role_wait role_time::waits_for() const {
  const auto longest = std::max_element(idle_for.begin(), idle_for.end());
  return *longest > 0 ? static_cast<role_wait>(longest - idle_for.begin()) : role_wait::unknown;
}

role_time& role_time::operator+=(const role_time& other) {
  busy += other.busy;
  device_wait += other.device_wait;
  for (std::size_t i = 0; i < role_wait_count; ++i)
    idle_for[i] += other.idle_for[i];
  absent += other.absent;
  done += other.done;
  return *this;
}

role_time& role_time::operator-=(const role_time& other) {
  busy -= other.busy;
  device_wait -= other.device_wait;
  for (std::size_t i = 0; i < role_wait_count; ++i)
    idle_for[i] -= other.idle_for[i];
  absent -= other.absent;
  done -= other.done;
  return *this;
}

double loop_time::per_second(run_role role) const {
  return wall > 0 ? static_cast<double>(of(role).done) * 1e9 / static_cast<double>(wall) : 0;
}

loop_time& loop_time::operator+=(const loop_time& other) {
  wall += other.wall;
  for (std::size_t i = 0; i < run_role_count; ++i) {
    roles[i] += other.roles[i];
    none_of[i] |= other.none_of[i];
  }
  return *this;
}

loop_time& loop_time::operator-=(const loop_time& other) {
  wall -= other.wall;
  for (std::size_t i = 0; i < run_role_count; ++i)
    roles[i] -= other.roles[i];
  return *this;
}

role_times::role_times(options bounds, nanoseconds_t now) : options_(bounds), last_(now) {
  options_.parts = std::max<std::size_t>(options_.parts, 1);
  options_.window =
      std::max<nanoseconds_t>(options_.window, static_cast<nanoseconds_t>(options_.parts));
  parts_.emplace_back();
}

role_member role_times::joined(run_role role, nanoseconds_t now) {
  advance(now);
  member_state member;
  member.role = role;
  member.since = run_time_;
  members_[next_] = member;
  ++roles_[static_cast<std::size_t>(role)].members;
  return next_++;
}

void role_times::left(role_member member, nanoseconds_t now) {
  advance(now);
  const auto known = members_.find(member);
  if (known == members_.end()) return;
  role_state& role = roles_[static_cast<std::size_t>(known->second.role)];
  --role.members;
  if (known->second.busy) --role.busy;
  members_.erase(known);
}

void role_times::working(role_member member, bool on, nanoseconds_t now) {
  advance(now);
  const auto known = members_.find(member);
  if (known == members_.end() || known->second.busy == on) return;
  settle(known->second);
  known->second.busy = on;
  roles_[static_cast<std::size_t>(known->second.role)].busy += on ? 1 : -1;
}

/// The newest parts give it up first: they hold at least what the member was busy since it last
/// told, unless that is longer ago than the window.
void role_times::waited_for_device(role_member member, nanoseconds_t total, nanoseconds_t now) {
  advance(now);
  const auto known = members_.find(member);
  if (known == members_.end()) return;
  member_state& state = known->second;
  settle(state);
  const nanoseconds_t news =
      std::clamp<nanoseconds_t>(total - state.device_total, 0, state.busy_since_told);
  state.device_total = std::max(state.device_total, total);
  state.busy_since_told = 0;
  total_.of(state.role).busy -= news;
  total_.of(state.role).device_wait += news;
  nanoseconds_t left = news;
  for (auto at = parts_.rbegin(); at != parts_.rend() && left > 0; ++at) {
    role_time& role = at->of(state.role);
    const nanoseconds_t here = std::min(left, role.busy);
    role.busy -= here;
    role.device_wait += here;
    left -= here;
  }
}

void role_times::waits_for(run_role role, role_wait what, nanoseconds_t now) {
  advance(now);
  roles_[static_cast<std::size_t>(role)].wait = what;
}

void role_times::did(run_role role, std::int64_t amount, nanoseconds_t now) {
  advance(now);
  // No time passes, so that rates would count it twice.
  if (paused_) return;
  part().of(role).done += amount;
  total_.of(role).done += amount;
}

void role_times::pause(bool on, nanoseconds_t now) {
  advance(now);
  paused_ = on;
}

loop_time role_times::window(nanoseconds_t now) {
  advance(now);
  (void)part();
  loop_time sum;
  for (const loop_time& each : parts_)
    sum += each;
  return sum;
}

loop_time role_times::total(nanoseconds_t now) {
  advance(now);
  return total_;
}

void role_times::advance(nanoseconds_t now) {
  nanoseconds_t span = now - last_;
  if (span <= 0) return;
  last_ = now;
  if (paused_) return;
  accrue(total_, span);
  const nanoseconds_t length = options_.window / static_cast<nanoseconds_t>(options_.parts);
  // What lies further back than the window would be forgotten at once.
  const nanoseconds_t skipped = std::max<nanoseconds_t>(0, span - options_.window - length);
  run_time_ += skipped;
  span -= skipped;
  while (span > 0) {
    const nanoseconds_t here = std::min(span, length - run_time_ % length);
    accrue(part(), here);
    run_time_ += here;
    span -= here;
  }
}

/// The part that now falls into.
loop_time& role_times::part() {
  const nanoseconds_t length = options_.window / static_cast<nanoseconds_t>(options_.parts);
  const std::int64_t current = run_time_ / length;
  if (current - first_part_ > 2 * static_cast<std::int64_t>(options_.parts)) {
    parts_.assign(1, {});
    first_part_ = current;
  }
  while (first_part_ + static_cast<std::int64_t>(parts_.size()) <= current)
    parts_.emplace_back();
  while (parts_.size() > options_.parts) {
    parts_.pop_front();
    ++first_part_;
  }
  return parts_.back();
}

void role_times::accrue(loop_time& to, nanoseconds_t span) const {
  to.wall += span;
  for (std::size_t i = 0; i < run_role_count; ++i) {
    const role_state& role = roles_[i];
    if (role.members == 0) to.roles[i].absent += span;
    to.roles[i].busy += role.busy * span;
    to.roles[i].idle_for[static_cast<std::size_t>(role.wait)] += (role.members - role.busy) * span;
  }
}

void role_times::settle(member_state& member) const {
  if (member.busy) member.busy_since_told += run_time_ - member.since;
  member.since = run_time_;
}

}  // namespace quern::actors
