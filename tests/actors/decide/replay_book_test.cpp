// The life of samples as the replay book decides it, call by call. The simulation covers the rest.
#include "actors/decide/replay_book.hpp"

#include <algorithm>

#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

base::hash128 hash_of(weights_version v) {
  return {static_cast<std::uint64_t>(v), 99};
}

replay_book book(std::int64_t S, std::int64_t P, bool deterministic = false,
                 incarnation_id incarnation = 1) {
  auto made = replay_book::make(incarnation, 0, {{S, P, staleness_policy::drop}, deterministic});
  REQUIRE(made);
  REQUIRE(made->know_weights(0, hash_of(0)));
  return std::move(*made);
}

void issue(replay_book& replay, group_id group, weights_version installed = 0) {
  const auto permit = replay.may_issue(installed);
  REQUIRE(permit);
  REQUIRE(replay.issued(group, *permit, {group * 10, group * 10 + 1}));
}

void make(replay_book& replay, sample_id sample, weights_version by) {
  const auto news = replay.generated(1, sample, 5, {{0, by, hash_of(by)}});
  REQUIRE(news);
  CHECK(news->counted);
}

std::vector<transition> finish(replay_book& replay, group_id group, weights_version by) {
  std::vector<transition> changes;
  for (const auto sample : {group * 10, group * 10 + 1}) {
    make(replay, sample, by);
    const auto news = replay.evaluated(1, sample);
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
  replay_options options{{0, 1, staleness_policy::drop}};
  options.fixed_policy = true;
  auto made = replay_book::make(1, 0, options);
  REQUIRE(made);
  replay_book& replay = *made;
  REQUIRE(replay.know_weights(0, hash_of(0)));
  issue(replay, 1);
  CHECK_FALSE(replay.may_issue(0));
  const auto changes = finish(replay, 1, 0);
  // Of each sample: evaluated, then with the group admitted and dropped.
  REQUIRE(changes.size() == 6);
  CHECK(admitted(changes) == std::vector<sample_id>{10, 11});
  CHECK(changes.back().to == sample_state::dropped);
  CHECK(changes.back().reason == drop_reason::no_learner);
  CHECK(replay.live() == 0);
  CHECK_FALSE(replay.next_batch()->next);
  // One that no verdict was had of costs the others nothing, and one sample is a group.
  issue(replay, 2);
  make(replay, 20, 0);
  CHECK(replay.dropped(1, 20, "infra_error")->counted);
  make(replay, 21, 0);
  CHECK(replay.evaluated(1, 21)->changes.back().reason == drop_reason::no_learner);
  const auto permit = replay.may_issue(0);
  REQUIRE(permit);
  CHECK(replay.issued(3, *permit, {30}));
  make(replay, 30, 0);
  CHECK(replay.evaluated(1, 30)->changes.size() == 3);
  CHECK(replay.live() == 0);
  CHECK(replay.may_issue(0));
  CHECK(replay.version() == 0);
  // With a learner one sample is none.
  auto learns = book(0, 1);
  CHECK_FALSE(learns.issued(1, *learns.may_issue(0), {10}));
}

TEST_CASE("from issue to step, and every message once") {
  auto replay = book(1, 1);
  issue(replay, 1);
  issue(replay, 2);
  CHECK_FALSE(replay.may_issue(0));
  CHECK(replay.in_state(sample_state::issued).size() == 4);
  CHECK(admitted(finish(replay, 1, 0)) == std::vector<sample_id>{10, 11});
  CHECK_FALSE(replay.generated(1, 10, 5, {{0, 0, hash_of(0)}})->counted);
  CHECK_FALSE(replay.evaluated(1, 10)->counted);
  CHECK_FALSE(replay.dropped(1, 10, "late")->counted);
  auto news = replay.next_batch();
  REQUIRE(news);
  REQUIRE(news->next);
  CHECK(news->next->from == 0);
  CHECK_FALSE(replay.next_batch()->next);
  CHECK_FALSE(replay.may_issue(0));
  CHECK_FALSE(replay.stepped(1, 7, hash_of(8))->counted);
  CHECK_FALSE(replay.stepped(2, 0, hash_of(1))->counted);
  const auto step = replay.stepped(1, 0, hash_of(1));
  REQUIRE(step);
  CHECK(step->counted);
  CHECK(step->changes.size() == 2);
  CHECK_FALSE(replay.stepped(1, 0, hash_of(1))->counted);
  CHECK(replay.version() == 1);
  CHECK_FALSE(replay.may_issue(0));  // would be two steps old when it is its turn
  CHECK(replay.may_issue(1));
  CHECK(replay.live() == 2);
}

TEST_CASE("verdicts are wanted until the batches of all steps are complete") {
  constexpr std::int64_t steps = 2;
  auto replay = book(1, 1);
  CHECK(replay.wants_verdicts(steps));
  issue(replay, 1);
  issue(replay, 2);
  finish(replay, 1, 0);
  CHECK(replay.wants_verdicts(steps));
  REQUIRE(replay.next_batch()->next);
  CHECK(replay.wants_verdicts(steps));
  make(replay, 20, 0);
  make(replay, 21, 0);
  REQUIRE(replay.evaluated(1, 20)->counted);
  CHECK(replay.wants_verdicts(steps));
  // The first step goes on, and the second one's batch is complete.
  REQUIRE(replay.evaluated(1, 21)->counted);
  CHECK_FALSE(replay.wants_verdicts(steps));
  CHECK(replay.wants_verdicts(steps + 1));
  REQUIRE(replay.stepped(1, 0, hash_of(1))->counted);
  CHECK_FALSE(replay.wants_verdicts(steps));
  const auto last = replay.next_batch();
  REQUIRE(last->next);
  // The last step: what may be there beside it is used by none.
  issue(replay, 3, 1);
  CHECK_FALSE(replay.wants_verdicts(steps));
  // Left out: its batch has to be replaced.
  REQUIRE(replay.left_out(1, last->next->number)->counted);
  CHECK(replay.wants_verdicts(steps));
  finish(replay, 3, 1);
  CHECK_FALSE(replay.wants_verdicts(steps));
  REQUIRE(replay.next_batch()->next);
  REQUIRE(replay.stepped(1, 1, hash_of(2))->counted);
  CHECK_FALSE(replay.wants_verdicts(steps));
}

TEST_CASE("a live sample wants its verdict although enough groups are complete") {
  auto replay = book(2, 1);
  issue(replay, 1);
  issue(replay, 2);
  finish(replay, 2, 0);
  CHECK(replay.wants_verdicts(1));
  finish(replay, 1, 0);
  CHECK_FALSE(replay.wants_verdicts(1));
}

TEST_CASE("deterministic: verdicts are wanted until all groups of all steps are over") {
  auto replay = book(1, 2, true);
  for (group_id group = 1; group <= 4; ++group)
    issue(replay, group);
  for (const group_id group : {1, 2, 3})
    finish(replay, group, 0);
  CHECK(replay.wants_verdicts(2));
  // A group that is dropped is not replaced.
  make(replay, 40, 0);
  REQUIRE(replay.evaluated(1, 40)->counted);
  REQUIRE(replay.dropped(1, 41, "noisy")->counted);
  CHECK_FALSE(replay.wants_verdicts(2));
}

TEST_CASE("messages of other incarnations and samples of other weights do not count") {
  auto replay = book(1, 1);
  issue(replay, 1);
  CHECK_FALSE(replay.generated(0, 10, 5, {{0, 0, hash_of(0)}})->counted);
  CHECK_FALSE(replay.generated(1, 10, 5, {{0, 0, hash_of(7)}})->counted);
  CHECK_FALSE(replay.generated(1, 99, 5, {{0, 0, hash_of(0)}})->counted);
  const auto ahead = replay.generated(1, 10, 5, {{0, 1, hash_of(1)}});
  REQUIRE_FALSE(ahead);
  CHECK(ahead.error().code == base::errc::internal);
  CHECK_FALSE(replay.generated(1, 10, 0, {}));
  CHECK_FALSE(replay.know_weights(0, hash_of(1)));
}

TEST_CASE("a group that was mostly lost to infrastructure is dropped whole, also after a resume") {
  auto replay = book(0, 1);
  const auto permit = replay.may_issue(0);
  REQUIRE(permit);
  REQUIRE(replay.issued(1, *permit, {10, 11, 12, 13, 14}));
  for (sample_id id = 10; id <= 14; ++id)
    make(replay, id, 0);
  for (const sample_id id : {10, 11})
    REQUIRE(replay.evaluated(1, id)->counted);
  for (const sample_id id : {12, 13})
    REQUIRE(replay.dropped(1, id, "infra_error")->counted);
  const auto news = replay.dropped(1, 14, "infra_error");
  REQUIRE(news);
  REQUIRE(news->changes.size() == 3);
  for (std::size_t i : {1, 2}) {
    CHECK(news->changes[i].to == sample_state::dropped);
    CHECK(news->changes[i].reason == drop_reason::group_mostly_lost);
  }
  CHECK(replay.live() == 0);
  CHECK(replay.may_issue(0));

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
  auto replay = book(0, 1);
  issue(replay, 1);
  CHECK_FALSE(replay.may_issue(0));
  make(replay, 10, 0);
  REQUIRE(replay.evaluated(1, 10)->counted);
  const auto news = replay.dropped(1, 11, "noisy");
  REQUIRE(news);
  REQUIRE(news->changes.size() == 2);
  CHECK(news->changes[0].sample == 11);
  CHECK(news->changes[0].reason == "noisy");
  CHECK(news->changes[1].sample == 10);
  CHECK(news->changes[1].reason == drop_reason::group_too_small);
  CHECK(replay.live() == 0);
  CHECK(replay.may_issue(0));
}

TEST_CASE("deterministic mode: versions by number, admission in issue order") {
  auto replay = book(1, 2, true);
  for (group_id g = 1; g <= 4; ++g)
    issue(replay, g);
  CHECK_FALSE(replay.may_issue(0));
  CHECK(finish(replay, 3, 0).size() == 2);  // its turn has not come
  CHECK(admitted(finish(replay, 2, 0)).empty());
  CHECK_FALSE(replay.next_batch()->next);
  const auto changes = finish(replay, 1, 0);
  CHECK(admitted(changes) == std::vector<sample_id>{10, 11, 20, 21, 30, 31});
  const auto news = replay.next_batch();
  REQUIRE(news->next);
  REQUIRE(news->next->groups.size() == 2);
  CHECK(news->next->groups[1].group == 2);
  REQUIRE(replay.stepped(1, 0, hash_of(1))->counted);
  CHECK(replay.may_issue(1)->version == 1);
  CHECK(replay.may_issue(0)->version == 1);
  CHECK(replay.oldest_needed() == 0);
  const auto wrong = replay_book::make(1, 0, {{1, 1, staleness_policy::wait}, true});
  CHECK_FALSE(wrong);
}

TEST_CASE("a batch that is left out is dropped, its slots are free, and the version stays") {
  auto replay = book(0, 1);
  issue(replay, 1);
  finish(replay, 1, 0);
  const auto first = replay.next_batch();
  REQUIRE(first->next);
  CHECK_FALSE(replay.may_issue(0));
  CHECK_FALSE(replay.left_out(2, first->next->number)->counted);
  const auto news = replay.left_out(1, first->next->number);
  REQUIRE(news->counted);
  REQUIRE(news->changes.size() == 2);
  for (const transition& change : news->changes) {
    CHECK(change.to == sample_state::dropped);
    CHECK(change.reason == drop_reason::non_finite);
  }
  CHECK(replay.version() == 0);
  CHECK(replay.live() == 0);
  CHECK(replay.window().charged() == 0);
  // The next one begins from the same version, and a late answer about the first is none about it.
  issue(replay, 2);
  finish(replay, 2, 0);
  const auto second = replay.next_batch();
  REQUIRE(second->next);
  CHECK(second->next->from == first->next->from);
  CHECK(second->next->number != first->next->number);
  CHECK_FALSE(replay.left_out(1, first->next->number)->counted);
  CHECK(replay.stepped(1, 0, hash_of(1))->counted);
  CHECK(replay.version() == 1);
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
    auto made = replay_book::make(1, 0, {{0, 1, policy}, false});
    REQUIRE(made);
    replay_book& replay = *made;
    REQUIRE(replay.know_weights(0, hash_of(0)));
    issue(replay, 1);
    for (const sample_id sample : {10, 11})
      REQUIRE(replay.dropped(1, sample, "infra_error")->counted);
    CHECK_FALSE(replay.next_batch()->next);
    issue(replay, 2);
    finish(replay, 2, 0);
    const auto spoilt = replay.next_batch();
    REQUIRE(spoilt->next);
    REQUIRE(replay.left_out(1, spoilt->next->number)->counted);
    CHECK_FALSE(replay.next_batch()->next);
    CHECK_FALSE(replay.under_way());
    issue(replay, 3);
    finish(replay, 3, 0);
    const auto next = replay.next_batch();
    REQUIRE(next->next);
    CHECK(next->next->groups.front().members.size() == 2);
    const auto step = replay.stepped(1, 0, hash_of(1));
    REQUIRE(step->counted);
    CHECK(step->changes.size() == 2);
  }
}

TEST_CASE("recovery: what was complete waits for its step, what was not is asked for again") {
  auto made = replay_book::make(2, 0, {{1, 1, staleness_policy::drop}, false}, 5);
  REQUIRE(made);
  auto& replay = *made;
  REQUIRE(replay.know_weights(0, hash_of(0)));
  REQUIRE(replay.restore(stored(1, 0, {sample_state::admitted, sample_state::admitted})));
  REQUIRE(replay.restore(stored(2, 1, {sample_state::generated, sample_state::issued})));
  REQUIRE(replay.restore(stored(3, 2, {sample_state::issued, sample_state::issued})));
  REQUIRE(replay.restore(stored(4, 3, {sample_state::evaluated, sample_state::dropped})));
  CHECK_FALSE(replay.restore(stored(5, 4, {sample_state::consumed, sample_state::consumed})));
  const auto changes = replay.restored();
  REQUIRE(changes);
  REQUIRE(changes->size() == 1);
  CHECK((*changes)[0].sample == 40);
  CHECK((*changes)[0].reason == drop_reason::group_too_small);
  CHECK(replay.parked() == 1);
  CHECK(replay.in_state(sample_state::issued) == std::vector<sample_id>{21});
  CHECK(replay.in_state(sample_state::generated) == std::vector<sample_id>{20});
  // Group 3 has to wait for a slot, and new groups for group 3.
  CHECK(replay.unpark(0)->empty());
  CHECK_FALSE(replay.may_issue(0));
  const auto batch = replay.next_batch();
  REQUIRE(batch->next);
  CHECK(batch->next->groups[0].group == 1);
  REQUIRE(replay.stepped(2, 0, hash_of(1))->counted);
  const auto ready = replay.unpark(1);
  REQUIRE(ready->size() == 1);
  CHECK((*ready)[0].first == 3);
  CHECK((*ready)[0].second.version == 1);
}

TEST_CASE("recovery in deterministic mode passes over groups that ended before") {
  auto made = replay_book::make(2, 0, {{0, 3, staleness_policy::drop}, true}, 3);
  REQUIRE(made);
  auto& replay = *made;
  REQUIRE(replay.know_weights(0, hash_of(0)));
  REQUIRE(replay.restore(stored(2, 1, {sample_state::evaluated, sample_state::evaluated})));
  const auto changes = replay.restored();
  REQUIRE(changes);
  CHECK(admitted(*changes) == std::vector<sample_id>{20, 21});
  const auto batch = replay.next_batch();
  REQUIRE(batch->next);
  CHECK(batch->next->groups.size() == 1);
}

}  // namespace
