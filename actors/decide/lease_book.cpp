// Leases: given, answered, expired, and remembered for a while so that late answers are known.
#include "actors/decide/lease_book.hpp"

#include <algorithm>

#include "actors/decide/mutation.hpp"

namespace quern::actors {

using base::errc;

std::string_view to_string(retry_cause cause) {
  switch (cause) {
    case retry_cause::noisy:
      return "noisy";
    case retry_cause::infra_error:
      return "infra_error";
    case retry_cause::invalid_reference:
      return "invalid_reference";
    case retry_cause::unconfirmed:
      return "unconfirmed";
    case retry_cause::unsupported:
      return "unsupported";
  }
  return "infra_error";
}

int retry_limits::of(retry_cause cause) const {
  switch (cause) {
    case retry_cause::noisy:
      return noisy;
    case retry_cause::infra_error:
      return infra_error;
    case retry_cause::invalid_reference:
      return invalid_reference;
    case retry_cause::unconfirmed:
      return unconfirmed;
    case retry_cause::unsupported:
      return 0;
  }
  return 0;
}

retry_limits retry_limits::within(std::int64_t attempts) {
  const int again = static_cast<int>(std::clamp<std::int64_t>(attempts - 1, 0, 1000));
  return {again, again, std::min(again, 1), std::min(again, 1)};
}

lease_book::lease_book(incarnation_id incarnation, limits bounds)
    : incarnation_(incarnation), limits_(bounds), next_(first_lease(incarnation)) {}

base::status lease_book::add(sample_id sample, int attempt) {
  job fresh;
  fresh.attempt = attempt;
  if (!jobs_.emplace(sample, fresh).second) {
    return base::fail(errc::conflict, "the job of sample {} is already known", sample);
  }
  return {};
}

std::optional<lease> lease_book::remove(sample_id sample) {
  const auto found = jobs_.find(sample);
  if (found == jobs_.end()) return std::nullopt;
  std::optional<lease> held;
  if (const auto open = open_.find(found->second.open); open != open_.end()) {
    held = open->second;
    if (!mutated(mutation::withdrawn_answer_used)) close(held->id, closing::lost);
  }
  if (!mutated(mutation::withdrawn_slot_kept)) jobs_.erase(found);
  return held;
}

base::expected<lease> lease_book::grant(sample_id sample, session_id holder, nanoseconds_t now) {
  const auto found = jobs_.find(sample);
  if (found == jobs_.end()) return base::fail(errc::not_found, "sample {} has no job", sample);
  if (found->second.open != 0) {
    return base::fail(errc::conflict, "the job of sample {} is under lease {:x}", sample,
                      found->second.open);
  }
  lease given{++next_, sample, found->second.attempt, holder, now + limits_.lease_ns};
  found->second.open = given.id;
  open_.emplace(given.id, given);
  deadlines_.emplace(given.deadline, given.id);
  return given;
}

void lease_book::close(lease_id id, closing state) {
  const auto found = open_.find(id);
  const auto& held = found->second;
  const auto [first, last] = deadlines_.equal_range(held.deadline);
  const auto due = std::find_if(first, last, [&](const auto& entry) { return entry.second == id; });
  if (due != last) deadlines_.erase(due);
  closed_.emplace(id, closed{held.holder, held.sample, held.attempt, state});
  if (const auto known = jobs_.find(held.sample);
      known != jobs_.end() && known->second.open == id) {
    known->second.open = 0;
  }
  open_.erase(found);
  // Leases that await a commit are few and recent; the oldest are answered or lost.
  while (closed_.size() > limits_.remembered &&
         closed_.begin()->second.state != closing::committing) {
    closed_.erase(closed_.begin());
  }
}

lease_result lease_book::fail(const lease& held, retry_cause cause) {
  lease_result result{lease_outcome::retry, held.sample, held.attempt, cause};
  const auto found = jobs_.find(held.sample);
  if (found == jobs_.end()) return result;
  auto& failures = found->second.failures[static_cast<int>(cause)];
  if (!mutated(mutation::retry_not_counted)) ++failures;
  result.failures = failures;
  if (failures > limits_.retries.of(cause)) {
    result.outcome = lease_outcome::exhausted;
    jobs_.erase(found);
  } else {
    ++found->second.attempt;
  }
  return result;
}

lease_result lease_book::result(lease_id id, session_id holder, std::optional<retry_cause> cause,
                                nanoseconds_t now) {
  lease_result answer;
  if (mutated(mutation::old_incarnation_accepted) && incarnation_of(id) < incarnation_) {
    // The lease of an earlier incarnation is taken for the one of this incarnation with the same
    // counter.
    id = first_lease(incarnation_) | (id & (first_lease(1) - 1));
    if (const auto alias = open_.find(id); alias != open_.end()) holder = alias->second.holder;
  }
  const auto found = open_.find(id);
  if (found == open_.end()) {
    const auto known = closed_.find(id);
    if (known == closed_.end() || known->second.holder != holder) {
      ++late_;
      return answer;
    }
    answer.sample = known->second.sample;
    answer.attempt = known->second.attempt;
    switch (known->second.state) {
      case closing::committing:
        answer.outcome = lease_outcome::pending;
        break;
      case closing::done:
        answer.outcome = lease_outcome::repeated;
        break;
      case closing::lost:
        answer.outcome = lease_outcome::late;
        ++late_;
        break;
    }
    if (mutated(mutation::second_verdict_accepted) && known->second.state != closing::lost) {
      answer.outcome = lease_outcome::accepted;
    }
    if (mutated(mutation::late_verdict_accepted) && known->second.state == closing::lost) {
      answer.outcome = lease_outcome::accepted;
    }
    return answer;
  }
  const lease held = found->second;
  if (held.holder != holder) {
    ++late_;
    return answer;
  }
  if (held.deadline <= now && !mutated(mutation::late_verdict_accepted)) {
    // Expired, though nobody has looked yet: `expire` will take it back.
    ++late_;
    answer.outcome = lease_outcome::late;
    answer.sample = held.sample;
    answer.attempt = held.attempt;
    return answer;
  }
  close(id, closing::committing);
  if (cause) return fail(held, *cause);
  jobs_.erase(held.sample);
  return {lease_outcome::accepted, held.sample, held.attempt, {}};
}

const lease* lease_book::answerable(lease_id id, session_id holder, nanoseconds_t now) const {
  const auto* held = find(id);
  return held != nullptr && held->holder == holder && held->deadline > now ? held : nullptr;
}

lease_result lease_book::give_back(lease_id id, session_id holder, nanoseconds_t now) {
  const auto* open = answerable(id, holder, now);
  if (open == nullptr || ++jobs_.at(open->sample).returns > limits_.most_returns)
    return result(id, holder, retry_cause::infra_error, now);
  const lease held = *open;
  close(id, closing::done);
  return {lease_outcome::returned, held.sample, held.attempt, {}};
}

lease_result lease_book::measure_again(lease_id id, session_id holder, nanoseconds_t now) {
  const auto* open = answerable(id, holder, now);
  if (open == nullptr) return result(id, holder, std::nullopt, now);
  const lease held = *open;
  close(id, closing::committing);
  ++jobs_.at(held.sample).attempt;
  return {lease_outcome::retry, held.sample, held.attempt, retry_cause::unconfirmed};
}

void lease_book::committed(lease_id id) {
  if (const auto found = closed_.find(id);
      found != closed_.end() && found->second.state == closing::committing) {
    found->second.state = closing::done;
  }
}

std::vector<lease_book::expired> lease_book::expire(nanoseconds_t now) {
  std::vector<expired> results;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto held = open_.at(deadlines_.begin()->second);
    close(held.id, closing::lost);
    results.push_back({held, fail(held, retry_cause::infra_error)});
  }
  return results;
}

std::vector<lease_result> lease_book::lose(session_id holder) {
  std::vector<lease_result> results;
  if (mutated(mutation::lease_kept_on_host_death)) {
    // The deadline is forgotten as well: nobody will ever take the job back.
    std::erase_if(deadlines_,
                  [&](const auto& entry) { return open_.at(entry.second).holder == holder; });
    return results;
  }
  for (const lease& held : leases_of(holder)) {
    close(held.id, closing::lost);
    results.push_back(fail(held, retry_cause::infra_error));
  }
  return results;
}

std::vector<lease_result> lease_book::leave(session_id holder) {
  std::vector<lease_result> results;
  for (const lease& held : leases_of(holder)) {
    // What it still says of it is late, and not the answer to a return.
    close(held.id, closing::lost);
    const bool too_often = ++jobs_.at(held.sample).returns > limits_.most_returns;
    results.push_back(too_often
                          ? fail(held, retry_cause::infra_error)
                          : lease_result{lease_outcome::returned, held.sample, held.attempt, {}});
  }
  return results;
}

std::vector<lease> lease_book::leases_of(session_id holder) const {
  std::vector<lease> all;
  for (const auto& [id, held] : open_) {
    if (held.holder == holder) all.push_back(held);
  }
  std::sort(all.begin(), all.end(), [](const lease& a, const lease& b) { return a.id < b.id; });
  return all;
}

std::optional<nanoseconds_t> lease_book::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

const lease* lease_book::find(lease_id id) const {
  const auto found = open_.find(id);
  return found == open_.end() ? nullptr : &found->second;
}

const lease* lease_book::holding(sample_id sample) const {
  const auto found = jobs_.find(sample);
  return found == jobs_.end() ? nullptr : find(found->second.open);
}

}  // namespace quern::actors
