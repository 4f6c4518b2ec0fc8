// One lock around the accounts, so that the times of two threads are told in order.
#include "actors/decide/role_board.hpp"

#include <algorithm>
#include <utility>

#include "actors/decide/role_report.hpp"

namespace quern::actors {

role_board::role_board(const base::clock& clock) : clock_(clock), times_({}, clock.now_ns()) {
  const nanoseconds_t now = clock_.now_ns();
  times_.waits_for(run_role::control, role_wait::messages, now);
  times_.waits_for(run_role::learner, role_wait::groups, now);
  times_.waits_for(run_role::evaluator, role_wait::jobs, now);
  control_ = times_.joined(run_role::control, now);
}

role_member role_board::joined(run_role role) {
  const std::lock_guard lock(guard_);
  return times_.joined(role, clock_.now_ns());
}

void role_board::left(role_member member) {
  const std::lock_guard lock(guard_);
  times_.left(member, clock_.now_ns());
}

void role_board::working(role_member member, bool on) {
  const std::lock_guard lock(guard_);
  times_.working(member, on, clock_.now_ns());
}

void role_board::waited_for_device(role_member member, nanoseconds_t total) {
  const std::lock_guard lock(guard_);
  times_.waited_for_device(member, total, clock_.now_ns());
}

void role_board::waits_for(run_role role, role_wait what) {
  const std::lock_guard lock(guard_);
  times_.waits_for(role, what, clock_.now_ns());
}

void role_board::did(run_role role, std::int64_t amount) {
  const std::lock_guard lock(guard_);
  times_.did(role, amount, clock_.now_ns());
}

void role_board::pause(bool on) {
  const std::lock_guard lock(guard_);
  times_.pause(on, clock_.now_ns());
}

void role_board::control_works(bool on) {
  working(control_, on);
}

void role_board::device_takes_work(const device_key& device, bool on) {
  const std::lock_guard lock(guard_);
  device_state& state = devices_[{device.session, device.device}];
  if ((state.member != 0) == on) return;
  const nanoseconds_t now = clock_.now_ns();
  if (!on) return times_.left(std::exchange(state.member, 0), now);
  state.member = times_.joined(run_role::evaluator, now);
  state.device_wait = 0;
  times_.working(state.member, state.jobs > 0, now);
}

void role_board::session_over(session_id session) {
  const std::lock_guard lock(guard_);
  const auto of_session = [session](const auto& entry) { return entry.first.first == session; };
  for (const auto& [id, state] : devices_)
    if (id.first == session) times_.left(state.member, clock_.now_ns());
  std::erase_if(devices_, of_session);
  std::erase_if(leases_, [session](const auto& entry) { return entry.second.first == session; });
}

void role_board::session_takes_no_work(session_id session) {
  const std::lock_guard lock(guard_);
  for (auto& [id, state] : devices_)
    if (id.first == session) times_.left(std::exchange(state.member, 0), clock_.now_ns());
}

void role_board::job_sent(lease_id lease, const device_key& device) {
  const std::lock_guard lock(guard_);
  const auto known = devices_.find({device.session, device.device});
  if (known == devices_.end() || !leases_.emplace(lease, known->first).second) return;
  ++known->second.jobs;
  times_.working(known->second.member, true, clock_.now_ns());
}

void role_board::job_over(lease_id lease, nanoseconds_t device_wait) {
  const std::lock_guard lock(guard_);
  const auto held = leases_.extract(lease);
  if (held.empty()) return;
  device_state& state = devices_[held.mapped()];
  const nanoseconds_t now = clock_.now_ns();
  // A host may say what it likes.
  constexpr nanoseconds_t longest = 3'600'000'000'000;
  state.device_wait += std::clamp<nanoseconds_t>(device_wait, 0, longest);
  times_.waited_for_device(state.member, state.device_wait, now);
  if (--state.jobs == 0) times_.working(state.member, false, now);
}

base::ordered_json role_board::since_last_step() {
  const std::lock_guard lock(guard_);
  const nanoseconds_t now = clock_.now_ns();
  const loop_time total = times_.total(now);
  loop_time news = total;
  news -= last_step_;
  last_step_ = total;
  // A wait for a device that is told now may have been before the last step, and counted as work.
  for (role_time& role : news.roles) {
    role.device_wait += std::min<nanoseconds_t>(role.busy, 0);
    role.busy = std::max<nanoseconds_t>(role.busy, 0);
  }
  news.none_of = none_of_;
  base::ordered_json told = to_json(news);
  told["held_back"] = bottleneck_json(seen_in_window());
  return told;
}

void role_board::without(run_role role) {
  const std::lock_guard lock(guard_);
  none_of_[static_cast<std::size_t>(role)] = true;
}

loop_time role_board::seen_in_window() {
  loop_time seen = times_.window(clock_.now_ns());
  seen.none_of = none_of_;
  return seen;
}

base::ordered_json role_board::window() {
  const std::lock_guard lock(guard_);
  const loop_time seen = seen_in_window();
  base::ordered_json told = to_json(seen);
  told["held_back"] = bottleneck_json(seen);
  return told;
}

}  // namespace quern::actors
