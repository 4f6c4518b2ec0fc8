// The life of samples as the sample book decides it, call by call. The simulation covers the rest.
#include "actors/decide/sample_book.hpp"

#include <algorithm>

#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

base::hash128 hash_of(weights_version v) {
  return {static_cast<std::uint64_t>(v), 99};
}

sample_book book(std::int64_t S, std::int64_t P, bool deterministic = false,
                 incarnation_id incarnation = 1) {
  auto made = sample_book::make(incarnation, 0, {{S, P, staleness_policy::drop}, deterministic});
  REQUIRE(made);
  REQUIRE(made->know_weights(0, hash_of(0)));
  return std::move(*made);
}

void issue(sample_book& tracked, group_id group, weights_version installed = 0) {
  const auto permit = tracked.may_issue(installed);
  REQUIRE(permit);
  REQUIRE(tracked.issued(group, *permit, {group * 10, group * 10 + 1}));
}

void make(sample_book& tracked, sample_id sample, weights_version by) {
  const auto news = tracked.generated(1, sample, 5, {{0, by, hash_of(by)}});
  REQUIRE(news);
  CHECK(news->counted);
}

std::vector<transition> finish(sample_book& tracked, group_id group, weights_version by) {
  std::vector<transition> changes;
  for (const auto sample : {group * 10, group * 10 + 1}) {
    make(tracked, sample, by);
    const auto news = tracked.evaluated(1, sample);
    REQUIRE(news);
    CHECK(news->counted);
    changes.insert(changes.end(), news->changes.begin(), news->changes.end());
  }
  return changes;
}

std::vector<sample_id> admitted(const std::vector<transition>& changes) {
  std::vector<sample_id> samples;
  for (const auto& c : changes) {
    if (c.to == sample_state::admitted) samples.push_back(c.sample);
  }
  return samples;
}

TEST_CASE(
    "without a learner a group ends with its last verdict, whole or not, and frees its slot") {
  sample_book_options options{{0, 1, staleness_policy::drop}};
  options.fixed_policy = true;
  auto made = sample_book::make(1, 0, options);
  REQUIRE(made);
  sample_book& tracked = *made;
  REQUIRE(tracked.know_weights(0, hash_of(0)));
  issue(tracked, 1);
  CHECK_FALSE(tracked.may_issue(0));
  const auto changes = finish(tracked, 1, 0);
  // Of each sample: evaluated, then with the group admitted and dropped.
  REQUIRE(changes.size() == 6);
  CHECK(admitted(changes) == std::vector<sample_id>{10, 11});
  CHECK(changes.back().to == sample_state::dropped);
  CHECK(changes.back().reason == drop_reason::no_learner);
  CHECK(tracked.live() == 0);
  CHECK_FALSE(tracked.next_batch()->next);
  // One that no verdict was had of costs the others nothing, and one sample is a group.
  issue(tracked, 2);
  make(tracked, 20, 0);
  CHECK(tracked.dropped(1, 20, "infra_error")->counted);
  make(tracked, 21, 0);
  CHECK(tracked.evaluated(1, 21)->changes.back().reason == drop_reason::no_learner);
  const auto permit = tracked.may_issue(0);
  REQUIRE(permit);
  CHECK(tracked.issued(3, *permit, {30}));
  make(tracked, 30, 0);
  CHECK(tracked.evaluated(1, 30)->changes.size() == 3);
  CHECK(tracked.live() == 0);
  CHECK(tracked.may_issue(0));
  CHECK(tracked.version() == 0);
  // With a learner one sample is none.
  auto learns = book(0, 1);
  CHECK_FALSE(learns.issued(1, *learns.may_issue(0), {10}));
}

TEST_CASE("from issue to step, and every message once") {
  auto tracked = book(1, 1);
  issue(tracked, 1);
  issue(tracked, 2);
  CHECK_FALSE(tracked.may_issue(0));
  CHECK(tracked.in_state(sample_state::issued).size() == 4);
  CHECK(admitted(finish(tracked, 1, 0)) == std::vector<sample_id>{10, 11});
  CHECK_FALSE(tracked.generated(1, 10, 5, {{0, 0, hash_of(0)}})->counted);
  CHECK_FALSE(tracked.evaluated(1, 10)->counted);
  CHECK_FALSE(tracked.dropped(1, 10, "late")->counted);
  auto news = tracked.next_batch();
  REQUIRE(news);
  REQUIRE(news->next);
  CHECK(news->next->from == 0);
  CHECK_FALSE(tracked.next_batch()->next);
  CHECK_FALSE(tracked.may_issue(0));
  CHECK_FALSE(tracked.stepped(1, 7, hash_of(8))->counted);
  CHECK_FALSE(tracked.stepped(2, 0, hash_of(1))->counted);
  const auto step = tracked.stepped(1, 0, hash_of(1));
  REQUIRE(step);
  CHECK(step->counted);
  CHECK(step->changes.size() == 2);
  CHECK_FALSE(tracked.stepped(1, 0, hash_of(1))->counted);
  CHECK(tracked.version() == 1);
  CHECK_FALSE(tracked.may_issue(0));  // would be two steps old when it is its turn
  CHECK(tracked.may_issue(1));
  CHECK(tracked.live() == 2);
}

TEST_CASE("verdicts are wanted until the batches of all steps are complete") {
  constexpr std::int64_t steps = 2;
  auto tracked = book(1, 1);
  CHECK(tracked.wants_verdicts(steps));
  issue(tracked, 1);
  issue(tracked, 2);
  finish(tracked, 1, 0);
  CHECK(tracked.wants_verdicts(steps));
  REQUIRE(tracked.next_batch()->next);
  CHECK(tracked.wants_verdicts(steps));
  make(tracked, 20, 0);
  make(tracked, 21, 0);
  REQUIRE(tracked.evaluated(1, 20)->counted);
  CHECK(tracked.wants_verdicts(steps));
  // The first step goes on, and the second one's batch is complete.
  REQUIRE(tracked.evaluated(1, 21)->counted);
  CHECK_FALSE(tracked.wants_verdicts(steps));
  CHECK(tracked.wants_verdicts(steps + 1));
  REQUIRE(tracked.stepped(1, 0, hash_of(1))->counted);
  CHECK_FALSE(tracked.wants_verdicts(steps));
  const auto last = tracked.next_batch();
  REQUIRE(last->next);
  // The last step: what may be there beside it is used by none.
  issue(tracked, 3, 1);
  CHECK_FALSE(tracked.wants_verdicts(steps));
  // Left out: its batch has to be replaced.
  REQUIRE(tracked.left_out(1, last->next->number)->counted);
  CHECK(tracked.wants_verdicts(steps));
  finish(tracked, 3, 1);
  CHECK_FALSE(tracked.wants_verdicts(steps));
  REQUIRE(tracked.next_batch()->next);
  REQUIRE(tracked.stepped(1, 1, hash_of(2))->counted);
  CHECK_FALSE(tracked.wants_verdicts(steps));
}

TEST_CASE("a live sample wants its verdict although enough groups are complete") {
  auto tracked = book(2, 1);
  issue(tracked, 1);
  issue(tracked, 2);
  finish(tracked, 2, 0);
  CHECK(tracked.wants_verdicts(1));
  finish(tracked, 1, 0);
  CHECK_FALSE(tracked.wants_verdicts(1));
}

TEST_CASE("deterministic: verdicts are wanted until all groups of all steps are over") {
  auto tracked = book(1, 2, true);
  for (group_id group = 1; group <= 4; ++group)
    issue(tracked, group);
  for (const group_id group : {1, 2, 3})
    finish(tracked, group, 0);
  CHECK(tracked.wants_verdicts(2));
  // A group that is dropped is not replaced.
  make(tracked, 40, 0);
  REQUIRE(tracked.evaluated(1, 40)->counted);
  REQUIRE(tracked.dropped(1, 41, "noisy")->counted);
  CHECK_FALSE(tracked.wants_verdicts(2));
}

TEST_CASE("messages of other incarnations and samples of other weights do not count") {
  auto tracked = book(1, 1);
  issue(tracked, 1);
  CHECK_FALSE(tracked.generated(0, 10, 5, {{0, 0, hash_of(0)}})->counted);
  CHECK_FALSE(tracked.generated(1, 10, 5, {{0, 0, hash_of(7)}})->counted);
  CHECK_FALSE(tracked.generated(1, 99, 5, {{0, 0, hash_of(0)}})->counted);
  const auto ahead = tracked.generated(1, 10, 5, {{0, 1, hash_of(1)}});
  REQUIRE_FALSE(ahead);
  CHECK(ahead.error().code == base::errc::internal);
  CHECK_FALSE(tracked.generated(1, 10, 0, {}));
  CHECK_FALSE(tracked.know_weights(0, hash_of(1)));
}

TEST_CASE("a group that was mostly lost to infrastructure is dropped whole, also after a resume") {
  auto tracked = book(0, 1);
  const auto permit = tracked.may_issue(0);
  REQUIRE(permit);
  REQUIRE(tracked.issued(1, *permit, {10, 11, 12, 13, 14}));
  for (sample_id id = 10; id <= 14; ++id)
    make(tracked, id, 0);
  for (const sample_id id : {10, 11})
    REQUIRE(tracked.evaluated(1, id)->counted);
  for (const sample_id id : {12, 13})
    REQUIRE(tracked.dropped(1, id, "infra_error")->counted);
  const auto news = tracked.dropped(1, 14, "infra_error");
  REQUIRE(news);
  REQUIRE(news->changes.size() == 3);
  for (std::size_t i : {1, 2}) {
    CHECK(news->changes[i].to == sample_state::dropped);
    CHECK(news->changes[i].reason == drop_reason::group_mostly_lost);
  }
  CHECK(tracked.live() == 0);
  CHECK(tracked.may_issue(0));

  // The same after a resume: the reasons come from the ledger.
  for (const std::string reason : {"infra_error", "noisy"}) {
    CAPTURE(reason);
    auto again = book(0, 1, false, 2);
    storage::group_row row;
    row.id = 1;
    row.incarnation = 1;
    for (sample_id id = 10; id <= 14; ++id) {
      storage::sample_row sample;
      sample.id = id;
      sample.group = 1;
      sample.state = id < 12 ? sample_state::evaluated : sample_state::dropped;
      if (id < 12) sample.segments = {{0, 0, hash_of(0)}};
      if (id >= 12) sample.drop_reason = reason;
      row.samples.push_back(sample);
    }
    REQUIRE(again.restore(row));
    const auto changes = again.restored();
    REQUIRE(changes);
    REQUIRE(changes->size() == 2);
    CHECK((*changes)[0].to == (reason == "noisy" ? sample_state::admitted : sample_state::dropped));
  }
}

TEST_CASE("a group that shrinks below two is dropped and frees its slot") {
  auto tracked = book(0, 1);
  issue(tracked, 1);
  CHECK_FALSE(tracked.may_issue(0));
  make(tracked, 10, 0);
  REQUIRE(tracked.evaluated(1, 10)->counted);
  const auto news = tracked.dropped(1, 11, "noisy");
  REQUIRE(news);
  REQUIRE(news->changes.size() == 2);
  CHECK(news->changes[0].sample == 11);
  CHECK(news->changes[0].reason == "noisy");
  CHECK(news->changes[1].sample == 10);
  CHECK(news->changes[1].reason == drop_reason::group_too_small);
  CHECK(tracked.live() == 0);
  CHECK(tracked.may_issue(0));
}

TEST_CASE("deterministic mode: versions by number, admission in issue order") {
  auto tracked = book(1, 2, true);
  for (group_id g = 1; g <= 4; ++g)
    issue(tracked, g);
  CHECK_FALSE(tracked.may_issue(0));
  CHECK(finish(tracked, 3, 0).size() == 2);  // its turn has not come
  CHECK(admitted(finish(tracked, 2, 0)).empty());
  CHECK_FALSE(tracked.next_batch()->next);
  const auto changes = finish(tracked, 1, 0);
  CHECK(admitted(changes) == std::vector<sample_id>{10, 11, 20, 21, 30, 31});
  const auto news = tracked.next_batch();
  REQUIRE(news->next);
  REQUIRE(news->next->groups.size() == 2);
  CHECK(news->next->groups[1].group == 2);
  REQUIRE(tracked.stepped(1, 0, hash_of(1))->counted);
  CHECK(tracked.may_issue(1)->version == 1);
  CHECK(tracked.may_issue(0)->version == 1);
  CHECK(tracked.oldest_needed() == 0);
  const auto wrong = sample_book::make(1, 0, {{1, 1, staleness_policy::wait}, true});
  CHECK_FALSE(wrong);
}

TEST_CASE("a batch that is left out is dropped, its slots are free, and the version stays") {
  auto tracked = book(0, 1);
  issue(tracked, 1);
  finish(tracked, 1, 0);
  const auto first = tracked.next_batch();
  REQUIRE(first->next);
  CHECK_FALSE(tracked.may_issue(0));
  CHECK_FALSE(tracked.left_out(2, first->next->number)->counted);
  const auto news = tracked.left_out(1, first->next->number);
  REQUIRE(news->counted);
  REQUIRE(news->changes.size() == 2);
  for (const transition& change : news->changes) {
    CHECK(change.to == sample_state::dropped);
    CHECK(change.reason == drop_reason::non_finite);
  }
  CHECK(tracked.version() == 0);
  CHECK(tracked.live() == 0);
  CHECK(tracked.window().charged() == 0);
  // The next one begins from the same version, and a late answer about the first is none about it.
  issue(tracked, 2);
  finish(tracked, 2, 0);
  const auto second = tracked.next_batch();
  REQUIRE(second->next);
  CHECK(second->next->from == first->next->from);
  CHECK(second->next->number != first->next->number);
  CHECK_FALSE(tracked.left_out(1, first->next->number)->counted);
  CHECK(tracked.stepped(1, 0, hash_of(1))->counted);
  CHECK(tracked.version() == 1);
}

storage::group_row stored(group_id group, std::int64_t seq, std::vector<sample_state> states) {
  storage::group_row row;
  row.id = group;
  row.seq = seq;
  for (std::size_t k = 0; k < states.size(); ++k) {
    storage::sample_row sample;
    sample.id = group * 10 + static_cast<sample_id>(k);
    sample.group = group;
    sample.state = states[k];
    if (states[k] != sample_state::issued) sample.segments = {{0, 0, hash_of(0)}};
    row.samples.push_back(sample);
  }
  return row;
}

TEST_CASE(
    "no batch is without samples: one that is dropped whole leaves the next to other groups") {
  for (const auto policy :
       {staleness_policy::drop, staleness_policy::wait, staleness_policy::mask_tokens}) {
    CAPTURE(to_string(policy));
    auto made = sample_book::make(1, 0, {{0, 1, policy}, false});
    REQUIRE(made);
    sample_book& tracked = *made;
    REQUIRE(tracked.know_weights(0, hash_of(0)));
    issue(tracked, 1);
    for (const sample_id sample : {10, 11})
      REQUIRE(tracked.dropped(1, sample, "infra_error")->counted);
    CHECK_FALSE(tracked.next_batch()->next);
    issue(tracked, 2);
    finish(tracked, 2, 0);
    const auto spoilt = tracked.next_batch();
    REQUIRE(spoilt->next);
    REQUIRE(tracked.left_out(1, spoilt->next->number)->counted);
    CHECK_FALSE(tracked.next_batch()->next);
    CHECK_FALSE(tracked.under_way());
    issue(tracked, 3);
    finish(tracked, 3, 0);
    const auto next = tracked.next_batch();
    REQUIRE(next->next);
    CHECK(next->next->groups.front().members.size() == 2);
    const auto step = tracked.stepped(1, 0, hash_of(1));
    REQUIRE(step->counted);
    CHECK(step->changes.size() == 2);
  }
}

TEST_CASE("recovery: what was complete waits for its step, what was not is asked for again") {
  auto made = sample_book::make(2, 0, {{1, 1, staleness_policy::drop}, false}, 5);
  REQUIRE(made);
  auto& tracked = *made;
  REQUIRE(tracked.know_weights(0, hash_of(0)));
  REQUIRE(tracked.restore(stored(1, 0, {sample_state::admitted, sample_state::admitted})));
  REQUIRE(tracked.restore(stored(2, 1, {sample_state::generated, sample_state::issued})));
  REQUIRE(tracked.restore(stored(3, 2, {sample_state::issued, sample_state::issued})));
  REQUIRE(tracked.restore(stored(4, 3, {sample_state::evaluated, sample_state::dropped})));
  CHECK_FALSE(tracked.restore(stored(5, 4, {sample_state::consumed, sample_state::consumed})));
  const auto changes = tracked.restored();
  REQUIRE(changes);
  REQUIRE(changes->size() == 1);
  CHECK((*changes)[0].sample == 40);
  CHECK((*changes)[0].reason == drop_reason::group_too_small);
  CHECK(tracked.parked() == 1);
  CHECK(tracked.in_state(sample_state::issued) == std::vector<sample_id>{21});
  CHECK(tracked.in_state(sample_state::generated) == std::vector<sample_id>{20});
  // Group 3 has to wait for a slot, and new groups for group 3.
  CHECK(tracked.unpark(0)->empty());
  CHECK_FALSE(tracked.may_issue(0));
  const auto batch = tracked.next_batch();
  REQUIRE(batch->next);
  CHECK(batch->next->groups[0].group == 1);
  REQUIRE(tracked.stepped(2, 0, hash_of(1))->counted);
  const auto ready = tracked.unpark(1);
  REQUIRE(ready->size() == 1);
  CHECK((*ready)[0].first == 3);
  CHECK((*ready)[0].second.version == 1);
}

TEST_CASE("recovery in deterministic mode passes over groups that ended before") {
  auto made = sample_book::make(2, 0, {{0, 3, staleness_policy::drop}, true}, 3);
  REQUIRE(made);
  auto& tracked = *made;
  REQUIRE(tracked.know_weights(0, hash_of(0)));
  REQUIRE(tracked.restore(stored(2, 1, {sample_state::evaluated, sample_state::evaluated})));
  const auto changes = tracked.restored();
  REQUIRE(changes);
  CHECK(admitted(*changes) == std::vector<sample_id>{20, 21});
  const auto batch = tracked.next_batch();
  REQUIRE(batch->next);
  CHECK(batch->next->groups.size() == 1);
}

}  // namespace
