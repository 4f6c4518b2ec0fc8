// Queues of jobs, rings of devices, and the pairing of the two.
#include "actors/decide/dispatcher.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "actors/decide/mutation.hpp"

namespace quern::actors {

using base::errc;
using base::fail;

namespace {

/// Jobs that are looked at for a device that the first of them must not have.
constexpr int most_passed = 64;

}  // namespace

dispatcher::device_state* dispatcher::find(const device_key& device) {
  const auto host = hosts_.find(device.session);
  if (host == hosts_.end()) return nullptr;
  for (auto& candidate : host->second.devices) {
    if (candidate.offer.id == device.device) return &candidate;
  }
  return nullptr;
}

const dispatcher::device_state* dispatcher::find(const device_key& device) const {
  return const_cast<dispatcher*>(this)->find(device);
}

void dispatcher::wake(market& where) {
  if (where.runnable || where.jobs.empty() || where.ready.empty()) return;
  where.runnable = true;
  runnable_.push_back(&where);
}

base::status dispatcher::push(job_request job, bool front) {
  if (waiting_.contains(job.sample)) {
    return fail(errc::conflict, "the job of sample {} is already waiting", job.sample);
  }
  auto& where = markets_[{job.lane, job.device_class}];
  const auto sample = job.sample;
  const place_in_queue when{job.turn, front ? --first_ : ++last_};
  const auto at = where.jobs.emplace(when, std::move(job)).first;
  waiting_.emplace(sample, place{&where, at});
  wake(where);
  return {};
}

base::status dispatcher::offer(job_request job) {
  if (waiting_.size() >= limits_.queue) {
    return fail(errc::exhausted,
                "{} jobs are waiting for a device, the limit; offer sample {} later",
                waiting_.size(), job.sample);
  }
  return push(std::move(job), false);
}

base::status dispatcher::requeue(job_request job) {
  return push(std::move(job), true);
}

bool dispatcher::withdraw(sample_id sample) {
  const auto found = waiting_.find(sample);
  if (found == waiting_.end()) return false;
  found->second.where->jobs.erase(found->second.at);
  waiting_.erase(found);
  return true;
}

std::vector<sample_id> dispatcher::withdraw_all() {
  std::vector<sample_id> samples;
  for (const auto& [sample, where] : waiting_)
    samples.push_back(sample);
  for (auto& [key, where] : markets_)
    where.jobs.clear();
  waiting_.clear();
  std::sort(samples.begin(), samples.end());
  return samples;
}

const std::vector<std::string>& lanes_of(const host_offer& offer, const device_offer& device) {
  return device.lanes.empty() ? offer.lanes : device.lanes;
}

base::status dispatcher::join(session_id session, host_offer offer) {
  if (hosts_.contains(session))
    return fail(errc::conflict, "session {} has already joined", session);
  if (hosts_.size() >= limits_.hosts) {
    return fail(errc::exhausted, "{} evaluator hosts are connected, the limit", hosts_.size());
  }
  if (offer.lanes.empty() || offer.devices.empty()) {
    return fail(errc::invalid_argument,
                "a host offers at least one lane and one device; got {} and {}", offer.lanes.size(),
                offer.devices.size());
  }
  std::set<std::int64_t> seen;
  const std::set<std::string> lanes(offer.lanes.begin(), offer.lanes.end());
  for (const auto& device : offer.devices) {
    if (!seen.insert(device.id).second) {
      return fail(errc::invalid_argument, "device {} is offered twice", device.id);
    }
    if (device.slots < 1 || device.device_class.empty()) {
      return fail(errc::invalid_argument,
                  "device {} has {} slots and class '{}'; at least one slot and a class are needed",
                  device.id, device.slots, device.device_class);
    }
    for (const std::string& lane : device.lanes) {
      if (lanes.contains(lane)) continue;
      return fail(errc::invalid_argument, "device {} has lane '{}', its host offers {}", device.id,
                  lane, fmt::join(lanes, ", "));
    }
  }
  host_state host;
  for (auto& device : offer.devices) {
    device_state state;
    const auto& own = lanes_of(offer, device);
    for (const auto& lane : std::set<std::string>(own.begin(), own.end()))
      state.ring_entries.push_back({&markets_[{lane, device.device_class}]});
    state.offer = std::move(device);
    host.devices.push_back(std::move(state));
  }
  hosts_.emplace(session, std::move(host));
  return {};
}

void dispatcher::enter_rings(const device_key& key, device_state& device) {
  for (auto& place_in : device.ring_entries) {
    if (!place_in.in_ring) {
      place_in.in_ring = true;
      place_in.where->ready.push_back(key);
    }
    wake(*place_in.where);
  }
}

base::status dispatcher::credit(const device_key& device, std::int64_t granted) {
  auto* state = find(device);
  if (state == nullptr) {
    return fail(errc::not_found, "session {} has no device {}", device.session, device.device);
  }
  if (mutated(mutation::credit_added_not_raised)) {
    granted = state->granted + std::min<std::int64_t>(granted, 1);
  } else if (granted > state->sent + state->offer.slots) {
    return fail(errc::invalid_argument,
                "device {} asks for {} jobs in all, but {} were sent and it has {} slots",
                device.device, granted, state->sent, state->offer.slots);
  }
  if (granted <= state->granted) return {};
  state->granted = granted;
  if (!hosts_.at(device.session).draining && !state->suspended) enter_rings(device, *state);
  return {};
}

void dispatcher::drain(session_id session) {
  const auto host = hosts_.find(session);
  if (host == hosts_.end()) return;
  host->second.draining = true;
  for (auto& device : host->second.devices) {
    leave_rings({session, device.offer.id}, device);
    // A job that was to go to one of these may find that there is no other any more.
    for (auto& place_in : device.ring_entries)
      wake(*place_in.where);
  }
}

void dispatcher::leave_rings(const device_key& key, device_state& device) {
  for (auto& place_in : device.ring_entries) {
    if (place_in.in_ring) std::erase(place_in.where->ready, key);
    place_in.in_ring = false;
  }
}

void dispatcher::suspend(const device_key& device, bool on) {
  auto* state = find(device);
  if (state == nullptr || state->suspended == on || mutated(mutation::quarantine_ignored)) return;
  state->suspended = on;
  if (on) {
    leave_rings(device, *state);
  } else if (state->sent < state->granted && !hosts_.at(device.session).draining) {
    enter_rings(device, *state);
  }
  // A job that was to go to another device may find that there is none any more.
  for (auto& place_in : state->ring_entries)
    wake(*place_in.where);
}

void dispatcher::leave(session_id session) {
  drain(session);
  hosts_.erase(session);
}

std::optional<device_key> dispatcher::take_ready(market& where, const job_request& job) {
  const auto& avoid = job.avoid;
  const bool strictly = job.elsewhere && avoid && has_other(job.lane, *avoid);
  bool avoided = false;
  while (!where.ready.empty()) {
    const auto key = where.ready.front();
    where.ready.pop_front();
    auto* device = find(key);
    if (device->sent >= device->granted) {  // its credit went to another lane
      for (auto& place_in : device->ring_entries) {
        if (place_in.where == &where) place_in.in_ring = false;
      }
      continue;
    }
    if (strictly && key == *avoid && (avoided || where.ready.empty())) {
      where.ready.push_back(key);
      return std::nullopt;
    }
    if (!avoided && avoid && key == *avoid && !where.ready.empty()) {
      avoided = true;
      where.ready.push_back(key);
      continue;
    }
    ++device->sent;
    if (device->sent < device->granted) {
      where.ready.push_back(key);
    } else {
      for (auto& place_in : device->ring_entries) {
        if (place_in.where == &where) place_in.in_ring = false;
      }
    }
    return key;
  }
  return std::nullopt;
}

std::optional<assignment> dispatcher::next() {
  while (!runnable_.empty()) {
    auto& where = *runnable_.front();
    runnable_.pop_front();
    where.runnable = false;
    // A job that waits for another device lets those behind it pass.
    int looked_at = 0;
    for (auto job = where.jobs.begin();
         job != where.jobs.end() && !where.ready.empty() && looked_at < most_passed; ++job) {
      ++looked_at;
      const auto device = take_ready(where, job->second);
      if (!device) continue;
      assignment result{std::move(job->second), *device};
      where.jobs.erase(job);
      waiting_.erase(result.job.sample);
      wake(where);
      return result;
    }
  }
  return std::nullopt;
}

std::int64_t dispatcher::sent(const device_key& device) const {
  const auto* state = find(device);
  return state == nullptr ? 0 : state->sent;
}

std::int64_t dispatcher::granted(const device_key& device) const {
  const auto* state = find(device);
  return state == nullptr ? 0 : state->granted;
}

bool dispatcher::has_other(const std::string& lane, const device_key& device) const {
  const auto* state = find(device);
  for (const auto& [session, host] : hosts_) {
    if (host.draining) continue;
    for (const auto& other : host.devices) {
      if (other.suspended || device_key{session, other.offer.id} == device) continue;
      for (const auto& place_in : other.ring_entries) {
        const auto found = markets_.find({lane, other.offer.device_class});
        const bool same_class =
            state == nullptr || state->offer.device_class == other.offer.device_class;
        if (same_class && found != markets_.end() && place_in.where == &found->second) return true;
      }
    }
  }
  return false;
}

bool dispatcher::servable(const std::string& lane, const std::string& device_class) const {
  const auto found = markets_.find({lane, device_class});
  if (found == markets_.end()) return false;
  for (const auto& [session, host] : hosts_) {
    if (host.draining) continue;
    for (const auto& device : host.devices) {
      if (device.suspended) continue;
      for (const auto& place_in : device.ring_entries) {
        if (place_in.where == &found->second) return true;
      }
    }
  }
  return false;
}

}  // namespace quern::actors
