// Large claims in the scheduler: who bears them out, and how often they are measured.
#include <utility>
#include <vector>

#include "actors/decide/evaluation_scheduler.hpp"
#include "base/clock.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using base::operator""_s;

evaluation_scheduler claims_scheduler() {
  return {1, evaluation_scheduler::limits({retry_limits{2, 3, 1, 1}, 60_s})};
}

/// Device 0 of host 1, which has `credit`, has claimed 8.12x of sample 7.
void claim_one(evaluation_scheduler& scheduler, std::vector<device_offer> devices,
               std::int64_t credit) {
  REQUIRE(scheduler.host_joined(1, {{"cuda"}, std::move(devices)}));
  REQUIRE(scheduler.credit({1, 0}, credit));
  REQUIRE(scheduler.submit({7, "cuda", "c", {}}));
  const auto first = scheduler.next(0);
  REQUIRE(first);
  REQUIRE(scheduler.claimed(1, first->held.id, 812, 1).outcome == lease_outcome::retry);
}

TEST_CASE("the scheduler has a claim borne out once: by another device, or by the only one") {
  auto scheduler = claims_scheduler();
  REQUIRE(scheduler.host_joined(1, {{"cuda"}, {{0, "c", 1}, {1, "c", 1}}}));
  REQUIRE(scheduler.credit({1, 0}, 1));
  REQUIRE(scheduler.submit({7, "cuda", "c", {}}));
  const auto first = scheduler.next(0);
  REQUIRE(first);
  CHECK(first->claim_e2 == 0);
  auto result = scheduler.claimed(1, first->held.id, 812, 1);
  CHECK(result.outcome == lease_outcome::retry);
  CHECK(result.attempt == 1);
  scheduler.committed(first->held.id);
  REQUIRE(scheduler.credit({1, 0}, 2));
  CHECK_FALSE(scheduler.next(2));  // not where it was made
  REQUIRE(scheduler.credit({1, 1}, 1));
  const auto second = scheduler.next(3);
  REQUIRE(second);
  CHECK(second->device == device_key{1, 1});
  CHECK(second->recheck);
  CHECK(second->claim_e2 == 812);
  CHECK(second->held.attempt == 2);
  // A host that does not know what a claim is to be compared with makes one anew: it counts.
  CHECK(scheduler.claimed(1, second->held.id, 820, 4).outcome == lease_outcome::accepted);
  CHECK(scheduler.idle());

  REQUIRE(scheduler.submit({8, "cuda", "c", {}}));
  scheduler.device_out({1, 1}, true);
  const auto alone = scheduler.next(5);
  REQUIRE(alone);
  CHECK(alone->device == device_key{1, 0});
  CHECK(scheduler.claimed(1, alone->held.id, 812, 6).outcome == lease_outcome::retry);
  scheduler.committed(alone->held.id);
  REQUIRE(scheduler.credit({1, 0}, 3));
  const auto itself = scheduler.next(7);
  REQUIRE(itself);
  CHECK(itself->device == device_key{1, 0});
  CHECK(itself->recheck);
  CHECK(itself->claim_e2 == 812);
  CHECK(scheduler.claimed(1, itself->held.id, 820, 8).outcome == lease_outcome::accepted);
  CHECK(scheduler.idle());
}

TEST_CASE("a claim that noise kept from being borne out still goes to another device") {
  auto scheduler = claims_scheduler();
  claim_one(scheduler, {{0, "c", 4}, {1, "c", 4}}, 1);
  REQUIRE(scheduler.credit({1, 0}, 4));
  REQUIRE(scheduler.credit({1, 1}, 1));
  auto again = scheduler.next(2);
  REQUIRE(again);
  CHECK(scheduler.verdict(1, again->held.id, env::verdict_kind::noisy, 3).outcome ==
        lease_outcome::retry);
  CHECK_FALSE(scheduler.next(4));
  REQUIRE(scheduler.credit({1, 1}, 2));
  again = scheduler.next(5);
  REQUIRE(again);
  CHECK(again->device == device_key{1, 1});
  CHECK(again->claim_e2 == 812);
}

TEST_CASE("a claim does not go back to the device that failed to bear it out") {
  auto scheduler = claims_scheduler();
  claim_one(scheduler, {{0, "c", 4}, {1, "c", 4}}, 1);
  REQUIRE(scheduler.credit({1, 1}, 1));
  const auto second = scheduler.next(2);
  REQUIRE(second);
  CHECK(second->device == device_key{1, 1});
  CHECK(scheduler.failed(1, second->held.id, 3).outcome == lease_outcome::retry);
  REQUIRE(scheduler.credit({1, 1}, 2));
  CHECK_FALSE(scheduler.next(4));
  REQUIRE(scheduler.credit({1, 0}, 2));
  const auto third = scheduler.next(5);
  REQUIRE(third);
  CHECK(third->device == device_key{1, 0});
  CHECK(third->claim_e2 == 812);
}

TEST_CASE("what bears a claim out neither time is measured twice anew, and claims once") {
  auto scheduler = claims_scheduler();
  claim_one(scheduler, {{0, "c", 4}}, 4);
  const auto second = scheduler.next(2);
  REQUIRE(second);
  CHECK(second->claim_e2 == 812);
  CHECK(scheduler.verdict(1, second->held.id, env::verdict_kind::unconfirmed, 3).outcome ==
        lease_outcome::retry);
  const auto third = scheduler.next(4);
  REQUIRE(third);
  CHECK(third->recheck);
  CHECK(third->claim_e2 == 0);
  CHECK(scheduler.claimed(1, third->held.id, 812, 5).outcome == lease_outcome::accepted);
  CHECK(scheduler.idle());
}

}  // namespace
