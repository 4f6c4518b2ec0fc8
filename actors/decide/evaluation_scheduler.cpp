// The queue, the credit and the leases, kept in step.
#include "actors/decide/evaluation_scheduler.hpp"

#include <algorithm>

#include "actors/decide/mutation.hpp"

namespace quern::actors {

evaluation_scheduler::evaluation_scheduler(incarnation_id incarnation, limits bounds)
    : leases_(incarnation, bounds.leases), queue_(bounds.queue), pause_(bounds.pause) {}

base::status evaluation_scheduler::submit(job_request job, int attempt) {
  const auto sample = job.sample;
  QUERN_CHECK(leases_.add(sample, attempt));
  if (auto queued = queue_.offer(job); !queued) {
    leases_.remove(sample);
    return queued;
  }
  jobs_[sample] = {std::move(job), std::nullopt, false, 0};
  return {};
}

std::optional<lease> evaluation_scheduler::cancel(sample_id sample) {
  queue_.withdraw(sample);
  std::erase_if(pausing_, [&](const auto& entry) { return entry.second == sample; });
  jobs_.erase(sample);
  return leases_.remove(sample);
}

std::vector<sample_id> evaluation_scheduler::withdraw_waiting() {
  auto samples = queue_.withdraw_all();
  for (const auto& [end, sample] : pausing_)
    samples.push_back(sample);
  pausing_.clear();
  std::sort(samples.begin(), samples.end());
  for (const auto sample : samples) {
    jobs_.erase(sample);
    leases_.remove(sample);
  }
  return samples;
}

base::status evaluation_scheduler::host_joined(session_id session, host_offer offer) {
  return queue_.join(session, std::move(offer));
}

base::status evaluation_scheduler::credit(const device_key& device, std::int64_t granted) {
  return queue_.credit(device, granted);
}

void evaluation_scheduler::host_draining(session_id session) {
  queue_.drain(session);
}

bool evaluation_scheduler::send_elsewhere(evaluation& work, const lease_result& result) const {
  const bool sick =
      result.outcome == lease_outcome::retry && result.cause == retry_cause::infra_error;
  // A claim is borne out by another device than the one that made it, though noise came between.
  // Where that one failed, any other bears it out.
  if (sick || !work.other_bears_out) {
    if (!mutated(mutation::failure_stays_here)) work.job.avoid = work.last;
    work.job.elsewhere = sick && !mutated(mutation::failure_stays_here);
  }
  if (!sick) return false;
  const bool other = work.last && queue_.has_other(work.job.lane, *work.last);
  return !other || result.failures > 1;
}

lease_result evaluation_scheduler::settle(lease_result result, nanoseconds_t now) {
  if (result.outcome == lease_outcome::retry || result.outcome == lease_outcome::returned) {
    const auto found = jobs_.find(result.sample);
    if (found == jobs_.end()) return result;
    auto& work = found->second;
    if (result.outcome == lease_outcome::retry)
      work.recheck = work.recheck || result.cause == retry_cause::unconfirmed;
    // The job was out under a lease until now, so it cannot be waiting.
    if (send_elsewhere(work, result)) {
      const auto retries = leases_.retries().of(retry_cause::infra_error);
      pausing_.emplace(now + pause_.after(result.failures, retries), result.sample);
    } else {
      (void)queue_.requeue(work.job);
    }
  } else if (result.outcome == lease_outcome::accepted ||
             result.outcome == lease_outcome::exhausted) {
    jobs_.erase(result.sample);
  }
  return result;
}

std::vector<lease_result> evaluation_scheduler::host_lost(session_id session, nanoseconds_t now) {
  queue_.leave(session);
  return settle_all(leases_.lose(session), now);
}

std::vector<lease_result> evaluation_scheduler::host_left(session_id session, nanoseconds_t now) {
  queue_.leave(session);
  return settle_all(leases_.leave(session), now);
}

std::vector<lease_result> evaluation_scheduler::settle_all(std::vector<lease_result> results,
                                                           nanoseconds_t now) {
  for (auto& result : results)
    result = settle(result, now);
  return results;
}

void evaluation_scheduler::end_pauses(nanoseconds_t now) {
  while (!pausing_.empty() && pausing_.begin()->first <= now) {
    const auto found = jobs_.find(pausing_.begin()->second);
    pausing_.erase(pausing_.begin());
    if (found != jobs_.end()) (void)queue_.requeue(found->second.job);
  }
}

std::optional<nanoseconds_t> evaluation_scheduler::next_deadline() const {
  auto earliest = leases_.next_deadline();
  if (!pausing_.empty())
    earliest = std::min(earliest.value_or(pausing_.begin()->first), pausing_.begin()->first);
  return earliest;
}

std::optional<job_order> evaluation_scheduler::next(nanoseconds_t now) {
  end_pauses(now);
  auto chosen = queue_.next();
  if (!chosen) return std::nullopt;
  auto granted = leases_.grant(chosen->job.sample, chosen->device.session, now);
  if (!granted) return std::nullopt;
  auto& work = jobs_[chosen->job.sample];
  work.last = chosen->device;
  return job_order{*granted, chosen->device, work.recheck, work.claim_e2};
}

lease_result evaluation_scheduler::verdict(session_id session, lease_id id, env::verdict_kind kind,
                                           nanoseconds_t now) {
  const auto result = leases_.result(id, session, retry_cause_of(kind), now);
  // Either measurement may have been the odd one: the next attempt makes two of its own.
  if (const auto found = jobs_.find(result.sample); found != jobs_.end() &&
                                                    result.outcome == lease_outcome::retry &&
                                                    kind == env::verdict_kind::unconfirmed)
    found->second.claim_e2 = 0;
  return settle(result, now);
}

lease_result evaluation_scheduler::claimed(session_id session, lease_id id, std::int64_t claim_e2,
                                           nanoseconds_t now) {
  const auto* held = leases_.find(id);
  const auto found = held == nullptr ? jobs_.end() : jobs_.find(held->sample);
  const bool again = found != jobs_.end() && !found->second.has_claimed && claim_e2 > 0 &&
                     found->second.last && !mutated(mutation::claim_stays_capped);
  if (!again) return verdict(session, id, env::verdict_kind::ok, now);
  auto result = leases_.measure_again(id, session, now);
  if (result.outcome == lease_outcome::retry) {
    auto& work = found->second;
    work.claim_e2 = claim_e2;
    work.has_claimed = true;
    work.other_bears_out = queue_.has_other(work.job.lane, *work.last);
    if (work.other_bears_out) {
      work.job.avoid = work.last;
      work.job.elsewhere = true;
    }
  }
  return settle(result, now);
}

lease_result evaluation_scheduler::returned(session_id session, lease_id id, nanoseconds_t now) {
  return settle(leases_.give_back(id, session, now), now);
}

lease_result evaluation_scheduler::failed(session_id session, lease_id id, nanoseconds_t now) {
  return settle(leases_.result(id, session, retry_cause::infra_error, now), now);
}

std::vector<lease_book::expired> evaluation_scheduler::expire(nanoseconds_t now) {
  auto expired = leases_.expire(now);
  for (auto& entry : expired)
    entry.result = settle(entry.result, now);
  return expired;
}

}  // namespace quern::actors
