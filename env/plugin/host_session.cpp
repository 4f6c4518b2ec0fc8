// The host's side of the protocol.
#include "env/plugin/host_session.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "env/plugin/time_outs.hpp"

namespace quern::env {

using base::nanoseconds_t;

namespace {

constexpr std::size_t remembered_leases = 4096;
constexpr std::size_t remembered_tasks = 256;
constexpr nanoseconds_t millisecond = 1'000'000;
constexpr std::size_t longest_reason = 500;

}  // namespace

host_session::host_session(host_profile profile, std::uint64_t nonce)
    : profile_(std::move(profile)), nonce_(nonce), heartbeat_ns_(first_heartbeat) {}

void host_session::greet(nanoseconds_t now, host_actions& actions) {
  greeting_ = true;
  next_hello_ = now + profile_.retry_ns;
  actions.send.push_back(hello_message{oldest_protocol, newest_protocol, profile_.build, nonce_,
                                       profile_.lanes, profile_.devices, profile_.pid,
                                       profile_.name, profile_.start});
}

void host_session::say_credit(std::int64_t device, host_actions& actions) {
  if (session_ == 0 || draining_ || unacknowledged_.size() >= profile_.most_unacknowledged) return;
  if (out_.contains(device)) return;
  actions.send.push_back(credit_message{session_, device, granted_[device]});
}

void host_session::void_all(host_actions& actions) {
  for (const auto& [lease, held] : held_) {
    if (held.started) actions.cancel.push_back(lease);
  }
  held_.clear();
  unacknowledged_.clear();
  needed_.clear();
  over_.clear();
  granted_.clear();
  owed_.clear();
}

heartbeat_message host_session::beat(nanoseconds_t now) const {
  heartbeat_message alive{session_};
  for (const auto& [device, out] : out_)
    alive.quarantined.push_back({device, out.reason, (now - out.since) / millisecond});
  return alive;
}

host_actions host_session::device_state(std::int64_t device, std::optional<std::string> why,
                                        nanoseconds_t now) {
  host_actions actions;
  if (why) {
    if (why->size() > longest_reason) why->resize(longest_reason);
    const auto [at, fresh] = out_.try_emplace(device, device_out{*why, now});
    if (!fresh && std::exchange(at->second.reason, *why) == *why) return actions;
  } else {
    if (out_.erase(device) == 0) return actions;
    if (const auto granted = granted_.find(device); granted != granted_.end())
      granted->second += std::exchange(owed_[device], 0);
  }
  if (greeting_) return actions;
  actions.send.push_back(beat(now));
  say_credit(device, actions);
  return actions;
}

void host_session::welcome(const welcome_message& in, nanoseconds_t now, host_actions& actions) {
  if (in.nonce != nonce_) return;
  if (session_ != 0 && in.session != session_) {
    // The gateway has forgotten the old session, or this answer is late. Either way both sides
    // start from nothing only in a session that is new to both.
    void_all(actions);
    session_ = 0;
    nonce_ = nonce_ * 6364136223846793005ULL + 1442695040888963407ULL;
    greet(now, actions);
    return;
  }
  if (session_ == 0) {
    session_ = in.session;
    run_ = in.run;
    actions.joined = true;
    for (const auto& device : profile_.devices)
      granted_[device.id] = device.slots;
  }
  greeting_ = false;
  heartbeat_ns_ = std::clamp<nanoseconds_t>(in.heartbeat_ms, 1, 3'600'000) * millisecond;
  next_heartbeat_ = now + heartbeat_ns_;
  if (!out_.empty()) actions.send.push_back(beat(now));
  for (const auto& device : profile_.devices)
    say_credit(device.id, actions);
  for (auto& [lease, verdict] : unacknowledged_) {
    verdict.again_at = now + profile_.retry_ns;
    actions.send.push_back(verdict.frame);
  }
  if (draining_) actions.send.push_back(bye_message{session_, 1});
}

void host_session::start(held_job& held, const std::shared_ptr<const std::string>& task,
                         host_actions& actions) {
  held.started = true;
  actions.start.push_back({held.job, task, held.deadline});
}

void host_session::take(const job_message& job, nanoseconds_t now, host_actions& actions) {
  const bool known = held_.contains(job.lease) || unacknowledged_.contains(job.lease) ||
                     std::find(over_.begin(), over_.end(), job.lease) != over_.end();
  if (job.session != session_ || greeting_ || known) return;
  auto& held = held_[job.lease];
  held.job = job;
  held.deadline = now + std::clamp<std::int64_t>(job.deadline_ms, 0, 86'400'000) * millisecond;
  if (!granted_.contains(job.device)) {
    const auto more =
        finished(job.lease, {true, fmt::format("this host has no device {}", job.device)}, now);
    actions.send.insert(actions.send.end(), more.send.begin(), more.send.end());
    return;
  }
  if (const auto task = tasks_.find(job.task_hash); task != tasks_.end()) {
    start(held, task->second, actions);
  } else if (needed_.emplace(job.task_hash, now + profile_.retry_ns).second) {
    actions.send.push_back(need_message{session_, job.task_hash});
  }
}

void host_session::cancel(const cancel_message& in, host_actions& actions) {
  if (in.session != session_ || greeting_) return;
  unacknowledged_.erase(in.lease);
  actions.send.push_back(failed_message{session_, in.lease, "cancelled"});
  const auto held = held_.find(in.lease);
  if (held == held_.end() && std::find(over_.begin(), over_.end(), in.lease) != over_.end()) return;
  if (held != held_.end() && held->second.started) actions.cancel.push_back(in.lease);
  release(in.lease, in.device, actions);
}

void host_session::release(std::uint64_t lease, std::int64_t device, host_actions& actions) {
  held_.erase(lease);
  over_.push_back(lease);
  if (over_.size() > remembered_leases) over_.pop_front();
  if (const auto granted = granted_.find(device); granted != granted_.end()) {
    ++(out_.contains(device) ? owed_[device] : granted->second);
    say_credit(device, actions);
  }
}

void host_session::check_drained(host_actions& actions) {
  if (!draining_ || done_ || !held_.empty() || !unacknowledged_.empty()) return;
  done_ = true;
  actions.done = true;
  if (session_ != 0) actions.send.push_back(bye_message{session_, 0});
}

host_actions host_session::on_message(const message& what, nanoseconds_t now) {
  host_actions actions;
  last_heard_ = now;
  if (const auto* in = std::get_if<welcome_message>(&what)) {
    welcome(*in, now, actions);
  } else if (const auto* refusal = std::get_if<refused_message>(&what)) {
    actions.end =
        base::error{refusal->code == "protocol" ? base::errc::version : base::errc::unavailable,
                    fmt::format("the gateway refused this host ({}): {}; {}", refusal->code,
                                refusal->text, refusal->hint)};
  } else if (const auto* job = std::get_if<job_message>(&what)) {
    take(*job, now, actions);
  } else if (const auto* task = std::get_if<task_message>(&what)) {
    const auto text = std::make_shared<const std::string>(task->text);
    if (tasks_.insert_or_assign(task->task_hash, text).second) task_age_.push_back(task->task_hash);
    if (task_age_.size() > remembered_tasks) {
      tasks_.erase(task_age_.front());
      task_age_.pop_front();
    }
    needed_.erase(task->task_hash);
    for (auto& [lease, held] : held_) {
      if (!held.started && held.job.task_hash == task->task_hash) start(held, text, actions);
    }
  } else if (const auto* ack = std::get_if<verdict_ack_message>(&what)) {
    const bool was_full = unacknowledged_.size() >= profile_.most_unacknowledged;
    if (unacknowledged_.erase(ack->lease) > 0 && was_full) {
      for (const auto& device : profile_.devices)
        say_credit(device.id, actions);
    }
  } else if (const auto* over = std::get_if<cancel_message>(&what)) {
    cancel(*over, actions);
  } else if (const auto* bye = std::get_if<bye_message>(&what)) {
    if (bye->drain != 0) return drain(now);
    void_all(actions);
    done_ = actions.done = true;
  } else if (const auto* problem = std::get_if<error_message>(&what)) {
    if (problem->code == "unknown_session" && !greeting_) greet(now, actions);
  }
  check_drained(actions);
  return actions;
}

host_actions host_session::on_time(nanoseconds_t now) {
  host_actions actions;
  if (done_) return actions;
  if (!greeting_ && now - last_heard_ >= missed_heartbeats * heartbeat_ns_) {
    actions.reconnect = true;
    last_heard_ = now;
    greet(now, actions);
    return actions;
  }
  if (greeting_) {
    if (now >= next_hello_) {
      // A connection that was refused or cut in the meantime is made again by libzmq itself.
      greet(now, actions);
    }
    return actions;
  }
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + heartbeat_ns_;
    actions.send.push_back(beat(now));
    for (const auto& device : profile_.devices)
      say_credit(device.id, actions);
    if (draining_) actions.send.push_back(bye_message{session_, 1});
  }
  for (auto& [lease, verdict] : unacknowledged_) {
    if (now < verdict.again_at) continue;
    verdict.again_at = now + profile_.retry_ns;
    actions.send.push_back(verdict.frame);
  }
  for (auto& [hash, again_at] : needed_) {
    if (now < again_at) continue;
    again_at = now + profile_.retry_ns;
    actions.send.push_back(need_message{session_, hash});
  }
  return actions;
}

host_actions host_session::finished(std::uint64_t lease, host_result result, nanoseconds_t now) {
  host_actions actions;
  const auto held = held_.find(lease);
  if (held == held_.end()) return actions;
  const auto device = held->second.job.device;
  message frame = result.failed ? message(failed_message{session_, lease, std::move(result.text),
                                                         result.returned ? 1 : 0})
                                : message(verdict_message{session_, lease, std::move(result.text)});
  if (!greeting_) actions.send.push_back(frame);
  unacknowledged_[lease] = {std::move(frame), now + profile_.retry_ns};
  release(lease, device, actions);
  return actions;
}

host_actions host_session::drain(nanoseconds_t now) {
  (void)now;
  host_actions actions;
  if (!draining_ && session_ != 0) actions.send.push_back(bye_message{session_, 1});
  draining_ = true;
  check_drained(actions);
  return actions;
}

host_actions host_session::leave() {
  host_actions actions;
  if (!done_ && session_ != 0) actions.send.push_back(bye_message{session_, 0});
  void_all(actions);
  done_ = actions.done = true;
  return actions;
}

std::string host_session::joined_text() const {
  return fmt::format("{} has joined {}: {}", profile_.name.empty() ? "this host" : profile_.name,
                     run_.empty() ? "the run" : "run " + run_,
                     offer_text(profile_.lanes, profile_.devices));
}

nanoseconds_t host_session::next_wakeup() const {
  if (greeting_) return next_hello_;
  auto next = std::min(next_heartbeat_, last_heard_ + missed_heartbeats * heartbeat_ns_);
  for (const auto& [lease, verdict] : unacknowledged_)
    next = std::min(next, verdict.again_at);
  for (const auto& [hash, again_at] : needed_)
    next = std::min(next, again_at);
  return next;
}

}  // namespace quern::env
