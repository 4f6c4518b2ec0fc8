// Leases: one holder at a time, one result that counts, bounded attempts.
#include <map>
#include <set>

#include "actors/decide/evaluation_scheduler.hpp"
#include "actors/decide/lease_book.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using base::operator""_s;

constexpr retry_limits some_retries{2, 3, 1, 1};

lease_book book(incarnation_id incarnation = 1) {
  return {incarnation, {some_retries, 10_s}};
}

evaluation_scheduler usual_scheduler() {
  return {1, evaluation_scheduler::limits({some_retries, 60_s})};
}

TEST_CASE("no cause takes more evaluations of a sample than are asked for") {
  for (const int attempts : {1, 2, 3, 7}) {
    for (const auto cause : {retry_cause::noisy, retry_cause::infra_error,
                             retry_cause::invalid_reference, retry_cause::unconfirmed}) {
      CAPTURE(attempts);
      CAPTURE(to_string(cause));
      const bool once_more =
          cause == retry_cause::invalid_reference || cause == retry_cause::unconfirmed;
      lease_book leases(1, {retry_limits::within(attempts), 60_s});
      REQUIRE(leases.add(7));
      int made = 0;
      lease_outcome outcome = lease_outcome::retry;
      while (outcome == lease_outcome::retry) {
        const auto held = leases.grant(7, 100, 0);
        REQUIRE(held);
        outcome = leases.result(held->id, 100, cause, 1).outcome;
        ++made;
      }
      CHECK(outcome == lease_outcome::exhausted);
      CHECK(made == (once_more ? std::min(attempts, 2) : attempts));
    }
  }
}

TEST_CASE("the first result under a living lease counts, no other ever does") {
  auto leases = book();
  REQUIRE(leases.add(7));
  CHECK_FALSE(leases.add(7));
  const auto held = leases.grant(7, 100, 0);
  REQUIRE(held);
  CHECK(held->attempt == 1);
  CHECK(held->deadline == 10_s);
  CHECK_FALSE(leases.grant(7, 101, 0));
  CHECK_FALSE(leases.grant(8, 101, 0));
  CHECK(leases.result(held->id, 101, {}, 1).outcome == lease_outcome::unknown);
  CHECK(leases.result(held->id, 100, {}, 1).outcome == lease_outcome::accepted);
  CHECK(leases.result(held->id, 100, {}, 1).outcome == lease_outcome::pending);
  leases.committed(held->id);
  CHECK(leases.result(held->id, 100, {}, 1).outcome == lease_outcome::repeated);
  CHECK(leases.result(held->id, 101, {}, 1).outcome == lease_outcome::unknown);
  CHECK(leases.jobs() == 0);
}

TEST_CASE("a result after the deadline is late, whether anybody has looked or not") {
  auto leases = book();
  REQUIRE(leases.add(7));
  const auto held = *leases.grant(7, 100, 0);
  CHECK(leases.next_deadline() == 10_s);
  CHECK(leases.result(held.id, 100, {}, 10_s).outcome == lease_outcome::late);
  const auto expired = leases.expire(10_s);
  REQUIRE(expired.size() == 1);
  CHECK(expired[0].held.id == held.id);
  CHECK(expired[0].result.outcome == lease_outcome::retry);
  CHECK(leases.result(held.id, 100, {}, 11_s).outcome == lease_outcome::late);
  const auto second = *leases.grant(7, 101, 11_s);
  CHECK(second.attempt == 2);
  CHECK(second.id != held.id);
  CHECK(leases.result(held.id, 100, {}, 12_s).outcome == lease_outcome::late);
  CHECK(leases.result(second.id, 101, {}, 12_s).outcome == lease_outcome::accepted);
  CHECK(leases.late_results() == 3);
}

TEST_CASE("each cause has its own bound") {
  for (const auto cause :
       {retry_cause::noisy, retry_cause::infra_error, retry_cause::invalid_reference,
        retry_cause::unconfirmed, retry_cause::unsupported}) {
    auto leases = book();
    REQUIRE(leases.add(7));
    const int most = some_retries.of(cause);
    for (int i = 0; i <= most; ++i) {
      const auto held = *leases.grant(7, 100, 0);
      CHECK(held.attempt == i + 1);
      const auto result = leases.result(held.id, 100, cause, 1);
      CHECK(result.cause == cause);
      CHECK(result.outcome == (i < most ? lease_outcome::retry : lease_outcome::exhausted));
    }
    CHECK(leases.jobs() == 0);
  }
}

TEST_CASE("the death of a holder gives back its jobs and no others") {
  auto leases = book();
  for (sample_id s = 1; s <= 3; ++s)
    REQUIRE(leases.add(s));
  const auto a = *leases.grant(1, 100, 0);
  const auto b = *leases.grant(2, 100, 0);
  const auto c = *leases.grant(3, 101, 0);
  const auto lost = leases.lose(100);
  REQUIRE(lost.size() == 2);
  CHECK(lost[0].sample == 1);
  CHECK(lost[1].sample == 2);
  CHECK(leases.result(a.id, 100, {}, 1).outcome == lease_outcome::late);
  CHECK(leases.result(b.id, 100, {}, 1).outcome == lease_outcome::late);
  CHECK(leases.result(c.id, 101, {}, 1).outcome == lease_outcome::accepted);
  CHECK(leases.lose(100).empty());
}

TEST_CASE("a holder that leaves in order gives back what it has begun, and no attempt is used up") {
  lease_book::limits bounds(some_retries, 60_s);
  bounds.most_returns = 2;
  lease_book leases(1, bounds);
  REQUIRE(leases.add(1));
  REQUIRE(leases.add(2));
  const auto other = *leases.grant(2, 50, 0);
  for (int i = 0; i < 2; ++i) {
    const auto held = *leases.grant(1, 100, 0);
    CHECK(held.attempt == 1);
    const auto left = leases.leave(100);
    REQUIRE(left.size() == 1);
    CHECK(left[0].outcome == lease_outcome::returned);
    CHECK(left[0].sample == 1);
    CHECK(left[0].attempt == 1);
    CHECK(leases.leave(100).empty());
    CHECK(leases.result(held.id, 100, {}, 1).outcome == lease_outcome::late);
  }
  // One that is sent about for ever is a failure in the end.
  REQUIRE(leases.grant(1, 100, 0));
  const auto left = leases.leave(100);
  REQUIRE(left.size() == 1);
  CHECK(left[0].outcome == lease_outcome::retry);
  CHECK(left[0].cause == retry_cause::infra_error);
  CHECK(leases.grant(1, 100, 0)->attempt == 2);
  CHECK(leases.result(other.id, 50, {}, 1).outcome == lease_outcome::accepted);
}

TEST_CASE("leases of different incarnations never meet") {
  auto old = book(1);
  auto now = book(2);
  REQUIRE(old.add(7));
  REQUIRE(now.add(7));
  const auto before = *old.grant(7, 100, 0);
  const auto after = *now.grant(7, 100, 0);
  CHECK(incarnation_of(before.id) == 1);
  CHECK(incarnation_of(after.id) == 2);
  CHECK(now.result(before.id, 100, {}, 1).outcome == lease_outcome::unknown);
  CHECK(now.holding(7)->id == after.id);
}

TEST_CASE("a job that is taken out leaves a lease that is late") {
  auto leases = book();
  REQUIRE(leases.add(7));
  CHECK_FALSE(leases.remove(8));
  const auto held = *leases.grant(7, 100, 0);
  const auto removed = leases.remove(7);
  REQUIRE(removed);
  CHECK(removed->id == held.id);
  CHECK(leases.result(held.id, 100, {}, 1).outcome == lease_outcome::late);
  CHECK_FALSE(leases.next_deadline());
}

TEST_CASE("closed leases are forgotten in the end") {
  lease_book::limits bounds(some_retries, 60_s);
  bounds.remembered = 8;
  lease_book leases(1, bounds);
  lease_id first = 0;
  for (sample_id s = 1; s <= 20; ++s) {
    REQUIRE(leases.add(s));
    const auto held = *leases.grant(s, 100, 0);
    if (s == 1) first = held.id;
    CHECK(leases.result(held.id, 100, {}, 1).outcome == lease_outcome::accepted);
    leases.committed(held.id);
  }
  CHECK(leases.result(first, 100, {}, 1).outcome == lease_outcome::unknown);
}

/// Thousands of random calls against the two rules that everything rests on.
TEST_CASE("any order of calls: one holder, one counted result, attempts that only grow") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    base::random_stream random(seed, "lease test");
    auto leases = book();
    nanoseconds_t now = 0;
    std::map<sample_id, int> counted, last_attempt;
    std::set<sample_id> alive;
    std::vector<lease> given;
    for (int step = 0; step < 200; ++step) {
      const auto sample = static_cast<sample_id>(random.below(12));
      switch (random.below(6)) {
        case 0:
          if (counted[sample] == 0 && leases.add(sample, last_attempt[sample] + 1))
            alive.insert(sample);
          break;
        case 1:
          if (auto held = leases.grant(sample, 100 + random.below(3), now)) {
            CHECK(held->attempt > last_attempt[sample]);
            last_attempt[sample] = held->attempt;
            given.push_back(*held);
          }
          break;
        case 2:
        case 3:
          if (!given.empty()) {
            const auto held = given[random.below(given.size())];
            const auto cause =
                random.chance(0.3) ? std::optional(retry_cause::noisy) : std::nullopt;
            const auto result = leases.result(held.id, held.holder, cause, now);
            if (result.outcome == lease_outcome::accepted) {
              CHECK(++counted[held.sample] == 1);
              CHECK(result.attempt == last_attempt[held.sample]);
              CHECK(now < held.deadline);
              alive.erase(held.sample);
            }
            if (result.outcome == lease_outcome::exhausted) alive.erase(held.sample);
          }
          break;
        case 4:
          now += static_cast<nanoseconds_t>(random.below(4)) * 1_s;
          break;
        default:
          for (const auto& e : leases.expire(now)) {
            CHECK(e.held.deadline <= now);
            if (e.result.outcome == lease_outcome::exhausted) alive.erase(e.result.sample);
          }
          for (const auto& r : leases.lose(100 + random.below(3))) {
            if (r.outcome == lease_outcome::exhausted) alive.erase(r.sample);
          }
      }
      CHECK(leases.jobs() == alive.size());
      CHECK(leases.leased() <= alive.size());
    }
  }
}

TEST_CASE("the scheduler queues what was lost in front, and re-checks elsewhere") {
  auto scheduler = usual_scheduler();
  for (session_id h : {1, 2}) {
    REQUIRE(scheduler.host_joined(h, {{"cpp"}, {{0, "c", 1}}}));
    REQUIRE(scheduler.credit({h, 0}, 1));
  }
  for (sample_id s = 1; s <= 4; ++s)
    REQUIRE(scheduler.submit({s, "cpp", "c", {}}));
  const auto first = scheduler.next(0);
  const auto second = scheduler.next(0);
  REQUIRE(first);
  REQUIRE(second);
  CHECK_FALSE(scheduler.next(0));
  const auto result =
      scheduler.verdict(first->device.session, first->held.id, env::verdict_kind::unconfirmed, 1);
  CHECK(result.outcome == lease_outcome::retry);
  // Both devices are free again: the re-check goes first, to the other one.
  REQUIRE(scheduler.credit(first->device, 2));
  REQUIRE(scheduler.credit(second->device, 2));
  const auto again = scheduler.next(2);
  REQUIRE(again);
  CHECK(again->held.sample == first->held.sample);
  CHECK(again->held.attempt == 2);
  CHECK(again->recheck);
  CHECK(again->device.session != first->device.session);
  const auto lost = scheduler.host_lost(second->device.session, 3);
  CHECK(lost.size() == 2);
  CHECK_FALSE(scheduler.idle());
  CHECK(retry_cause_of(env::verdict_kind::wrong_value) == std::nullopt);
}

TEST_CASE("what no host can run is dropped at once, and has no result that counts") {
  for (const auto kind : {env::verdict_kind::unsupported, env::verdict_kind::wrong_value}) {
    auto scheduler = usual_scheduler();
    REQUIRE(scheduler.host_joined(1, {{"cpp"}, {{0, "c", 1}}}));
    REQUIRE(scheduler.credit({1, 0}, 1));
    REQUIRE(scheduler.submit({7, "cpp", "c", {}}));
    const auto order = scheduler.next(0);
    REQUIRE(order);
    const auto result = scheduler.verdict(1, order->held.id, kind, 1);
    const bool counts = kind == env::verdict_kind::wrong_value;
    CHECK(result.outcome == (counts ? lease_outcome::accepted : lease_outcome::exhausted));
    if (!counts) CHECK(to_string(result.cause) == "unsupported");
    scheduler.committed(order->held.id);
    CHECK(scheduler.idle());
  }
}

TEST_CASE("what waits is withdrawn, what a host holds is not, until it comes back") {
  auto scheduler = usual_scheduler();
  REQUIRE(scheduler.host_joined(1, {{"cpp"}, {{0, "c", 2}}}));
  REQUIRE(scheduler.credit({1, 0}, 2));
  for (sample_id s = 1; s <= 5; ++s)
    REQUIRE(scheduler.submit({s, "cpp", "c", {}}));
  const auto first = scheduler.next(0), second = scheduler.next(0);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(scheduler.withdraw_waiting() == std::vector<sample_id>{3, 4, 5});
  CHECK(scheduler.withdraw_waiting().empty());
  CHECK(scheduler.queue().waiting() == 0);
  CHECK(scheduler.leases().jobs() == 2);
  REQUIRE(scheduler.credit({1, 0}, 3));
  CHECK_FALSE(scheduler.next(0));
  // One is judged, the other could not be: it would be measured again, and is withdrawn instead.
  CHECK(scheduler.verdict(1, first->held.id, env::verdict_kind::ok, 1).outcome ==
        lease_outcome::accepted);
  CHECK(scheduler.failed(1, second->held.id, 1).outcome == lease_outcome::retry);
  CHECK(scheduler.withdraw_waiting() == std::vector<sample_id>{second->held.sample});
  scheduler.committed(first->held.id);
  CHECK(scheduler.idle());
  // As new ones they may come again.
  for (sample_id s = 2; s <= 5; ++s)
    REQUIRE(scheduler.submit({s, "cpp", "c", {}}));
  CHECK(scheduler.next(2));
}

/// Hosts that are sick in turn: all jobs fail at once on those that `is_sick` names at a time.
/// Returns how many jobs were exhausted.
template <class Sick>
int judged_while_sick(int hosts, int jobs, int attempts, nanoseconds_t until, Sick is_sick) {
  const evaluation_scheduler::limits bounds({retry_limits::within(attempts), 60_s});
  evaluation_scheduler scheduler(1, bounds);
  std::vector<std::int64_t> credit(static_cast<std::size_t>(hosts), 1);
  for (int h = 1; h <= hosts; ++h) {
    REQUIRE(scheduler.host_joined(static_cast<session_id>(h), {{"cpp"}, {{0, "c", 1}}}));
    REQUIRE(scheduler.credit({static_cast<session_id>(h), 0}, 1));
  }
  for (sample_id s = 1; s <= jobs; ++s)
    REQUIRE(scheduler.submit({s, "cpp", "c", {}}));
  int exhausted = 0;
  for (nanoseconds_t now = 0; now < until; now += 10'000'000) {
    while (const auto order = scheduler.next(now)) {
      const auto host = order->device.session;
      const auto result = is_sick(host, now)
                              ? scheduler.failed(host, order->held.id, now)
                              : scheduler.verdict(host, order->held.id, env::verdict_kind::ok, now);
      exhausted += result.outcome == lease_outcome::exhausted ? 1 : 0;
      scheduler.committed(order->held.id);
      REQUIRE(scheduler.credit(order->device, ++credit[host - 1]));
      if (scheduler.idle()) return exhausted;
    }
  }
  CHECK(scheduler.idle());
  return exhausted;
}

TEST_CASE("a disk that is full for 20 s uses no job's attempts up, on one host or on all") {
  const auto full = [](session_id, nanoseconds_t now) { return now < 20_s; };
  for (const int attempts : {2, 3, 4, 10}) {
    CAPTURE(attempts);
    CHECK(judged_while_sick(1, 50, attempts, 200_s, full) == 0);
    // The first retry is that of another host, which takes it at once.
    if (attempts > 2) CHECK(judged_while_sick(3, 50, attempts, 200_s, full) == 0);
  }
  // What stays sick ends all the same.
  CHECK(judged_while_sick(1, 50, 3, 400_s, [](session_id, nanoseconds_t) { return true; }) == 50);
}

TEST_CASE("what failed on one host is tried at once on another, and only there") {
  auto scheduler = usual_scheduler();
  for (session_id h : {1, 2}) {
    REQUIRE(scheduler.host_joined(h, {{"cpp"}, {{0, "c", 2}}}));
  }
  REQUIRE(scheduler.credit({1, 0}, 2));
  REQUIRE(scheduler.submit({7, "cpp", "c", {}}));
  const auto first = scheduler.next(0);
  REQUIRE(first);
  CHECK(scheduler.failed(1, first->held.id, 1_s).outcome == lease_outcome::retry);
  CHECK(scheduler.pausing() == 0);
  // The one that failed asks for more; the job waits for the other.
  CHECK_FALSE(scheduler.next(1_s));
  REQUIRE(scheduler.credit({2, 0}, 1));
  const auto second = scheduler.next(1_s);
  REQUIRE(second);
  CHECK(second->device.session == 2);
  // Both have failed: now it waits, and the wait is a deadline of the scheduler.
  CHECK(scheduler.failed(2, second->held.id, 2_s).outcome == lease_outcome::retry);
  CHECK(scheduler.pausing() == 1);
  CHECK_FALSE(scheduler.next(2_s));
  const auto due = scheduler.next_deadline();
  REQUIRE(due);
  CHECK(*due > 2_s);
  const auto third = scheduler.next(*due);
  REQUIRE(third);
  CHECK(third->device.session == 1);
  // Noise is no fault of the host's: the job is at hand at once.
  CHECK(scheduler.verdict(1, third->held.id, env::verdict_kind::noisy, *due).outcome ==
        lease_outcome::retry);
  CHECK(scheduler.pausing() == 0);
  // A pausing job is cancelled like any other.
  REQUIRE(scheduler.credit({2, 0}, 2));
  const auto fourth = scheduler.next(*due);
  REQUIRE(fourth);
  CHECK(scheduler.failed(2, fourth->held.id, *due).outcome == lease_outcome::retry);
  CHECK(scheduler.pausing() == 1);
  CHECK_FALSE(scheduler.cancel(7));
  CHECK(scheduler.pausing() == 0);
  CHECK(scheduler.idle());
  CHECK_FALSE(scheduler.next_deadline());
}

TEST_CASE("pauses grow fourfold and add up to what they are to outlast") {
  const retry_pause pause{30_s};
  for (const int retries : {1, 2, 3, 9, 1000}) {
    nanoseconds_t sum = 0, last = 0;
    for (int k = std::max(1, retries - 15); k <= retries; ++k) {
      const nanoseconds_t one = pause.after(k, retries);
      if (last > 1000) CHECK(std::abs(one - 4 * last) <= 4);
      last = one;
      sum += one;
    }
    CHECK(sum <= 30_s);
    CHECK(sum >= 28_s);
  }
}

TEST_CASE("what is returned uses no attempt up, but is not sent about for ever") {
  lease_book::limits bounds(retry_limits::within(2), 60_s);
  bounds.most_returns = 3;
  lease_book leases(1, bounds);
  REQUIRE(leases.add(7));
  for (int i = 0; i < 3; ++i) {
    const auto held = leases.grant(7, 100, 0);
    REQUIRE(held);
    CHECK(held->attempt == 1);
    CHECK(leases.give_back(held->id, 200, 1).outcome == lease_outcome::unknown);
    CHECK(leases.give_back(held->id, 100, 1).outcome == lease_outcome::returned);
    CHECK(leases.give_back(held->id, 100, 1).outcome == lease_outcome::repeated);
    CHECK(leases.holding(7) == nullptr);
  }
  auto held = leases.grant(7, 100, 0);
  CHECK(leases.give_back(held->id, 100, 1).outcome == lease_outcome::retry);
  held = leases.grant(7, 100, 0);
  CHECK(held->attempt == 2);
  CHECK(leases.give_back(held->id, 100, 1).outcome == lease_outcome::exhausted);
}

TEST_CASE("returned too late is late") {
  auto leases = book();
  REQUIRE(leases.add(7));
  const auto held = leases.grant(7, 100, 0);
  CHECK(leases.give_back(held->id, 100, 10_s).outcome == lease_outcome::late);
}

TEST_CASE("the scheduler gives a returned job to another device, as the same attempt") {
  auto scheduler = usual_scheduler();
  REQUIRE(scheduler.host_joined(1, {{"cuda"}, {{0, "c", 1}, {1, "c", 1}}}));
  REQUIRE(scheduler.credit({1, 0}, 1));
  REQUIRE(scheduler.submit({7, "cuda", "c", {}}));
  const auto first = scheduler.next(0);
  REQUIRE(first);
  scheduler.device_out({1, 0}, true);
  CHECK(scheduler.returned(1, first->held.id, 1).outcome == lease_outcome::returned);
  CHECK_FALSE(scheduler.next(2));
  REQUIRE(scheduler.credit({1, 1}, 1));
  const auto second = scheduler.next(3);
  REQUIRE(second);
  CHECK(second->device == device_key{1, 1});
  CHECK(second->held.attempt == 1);
  CHECK_FALSE(second->recheck);
}

}  // namespace
