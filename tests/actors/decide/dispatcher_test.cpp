// Credit, queues and rings.
#include "actors/decide/dispatcher.hpp"

#include <map>
#include <set>

#include "actors/decide/usable_devices.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

host_offer offer(std::int64_t slots = 1, const std::string& device_class = "c",
                 std::vector<std::string> lanes = {"cpp"}) {
  return {std::move(lanes), {{0, device_class, slots}}};
}
job_request job(sample_id sample, const std::string& device_class = "c") {
  return {sample, "cpp", device_class, {}};
}

TEST_CASE("nothing is sent that was not asked for, and a doubled CREDIT buys nothing") {
  dispatcher d({});
  REQUIRE(d.join(1, offer(2)));
  for (sample_id s = 1; s <= 9; ++s)
    REQUIRE(d.offer(job(s)));
  CHECK_FALSE(d.next());
  REQUIRE(d.credit({1, 0}, 1));
  REQUIRE(d.credit({1, 0}, 1));
  CHECK(d.next()->job.sample == 1);
  CHECK_FALSE(d.next());
  REQUIRE(d.credit({1, 0}, 3));
  REQUIRE(d.credit({1, 0}, 2));  // reordered
  CHECK(d.next()->job.sample == 2);
  CHECK(d.next()->job.sample == 3);
  CHECK_FALSE(d.next());
  CHECK(d.sent({1, 0}) == 3);
  const auto greedy = d.credit({1, 0}, 99);
  REQUIRE_FALSE(greedy);
  CHECK(greedy.error().code == base::errc::invalid_argument);
  CHECK_FALSE(d.credit({1, 7}, 1));
  CHECK_FALSE(d.credit({2, 0}, 1));
}

TEST_CASE("the queue is bounded, but what comes back is never refused") {
  dispatcher d({2, 8});
  REQUIRE(d.join(1, offer(4)));
  REQUIRE(d.offer(job(1)));
  REQUIRE(d.offer(job(2)));
  const auto full = d.offer(job(3));
  REQUIRE_FALSE(full);
  CHECK(full.error().code == base::errc::exhausted);
  REQUIRE(d.requeue(job(9)));
  CHECK_FALSE(d.requeue(job(9)));
  REQUIRE(d.credit({1, 0}, 4));
  CHECK(d.next()->job.sample == 9);
  CHECK(d.withdraw(2));
  CHECK_FALSE(d.withdraw(2));
  CHECK(d.next()->job.sample == 1);
  CHECK_FALSE(d.next());
  CHECK(d.waiting() == 0);
}

TEST_CASE("jobs of an earlier turn go first, what came back before its equals") {
  dispatcher d({});
  REQUIRE(d.join(1, offer(9)));
  const auto with_turn = [](sample_id sample, std::int64_t turn) {
    job_request made = job(sample);
    made.turn = turn;
    return made;
  };
  REQUIRE(d.offer(with_turn(1, 2)));
  REQUIRE(d.offer(with_turn(2, 2)));
  REQUIRE(d.offer(with_turn(3, 1)));
  REQUIRE(d.offer(with_turn(4, 3)));
  REQUIRE(d.requeue(with_turn(5, 2)));
  REQUIRE(d.requeue(with_turn(6, 3)));
  REQUIRE(d.credit({1, 0}, 9));
  std::vector<sample_id> order;
  while (const auto a = d.next())
    order.push_back(a->job.sample);
  CHECK(order == std::vector<sample_id>{3, 5, 1, 2, 6, 4});
}

TEST_CASE("a job goes to its lane and device class only") {
  dispatcher d({});
  REQUIRE(d.join(1, offer(4, "fast")));
  REQUIRE(d.join(2, offer(4, "slow", {"cpp", "cuda"})));
  REQUIRE(d.credit({1, 0}, 4));
  REQUIRE(d.credit({2, 0}, 4));
  REQUIRE(d.offer(job(1, "slow")));
  REQUIRE(d.offer(job(2, "fast")));
  REQUIRE(d.offer({3, "cuda", "slow", {}}));
  REQUIRE(d.offer({4, "cuda", "fast", {}}));
  std::map<sample_id, session_id> got;
  while (const auto a = d.next())
    got[a->job.sample] = a->device.session;
  CHECK(got == std::map<sample_id, session_id>{{1, 2}, {2, 1}, {3, 2}});
  CHECK(d.servable("cuda", "slow"));
  CHECK_FALSE(d.servable("cuda", "fast"));
  CHECK_FALSE(d.servable("no_such_lane", "slow"));
}

TEST_CASE("a device has the lanes that it names, or all of its host's") {
  dispatcher d({});
  REQUIRE(d.join(1, {{"cpp", "cuda"}, {{0, "gpu", 4, {"cuda"}}, {1, "core", 4, {"cpp"}}}}));
  REQUIRE(d.join(2, {{"cpp", "cuda"}, {{0, "old", 4}}}));
  for (const device_key device : {device_key{1, 0}, device_key{1, 1}, device_key{2, 0}})
    REQUIRE(d.credit(device, 4));
  CHECK(d.servable("cuda", "gpu"));
  CHECK(d.servable("cpp", "core"));
  CHECK_FALSE(d.servable("cpp", "gpu"));
  CHECK_FALSE(d.servable("cuda", "core"));
  CHECK(d.servable("cpp", "old"));
  CHECK(d.servable("cuda", "old"));
  REQUIRE(d.offer({1, "cpp", "gpu", {}}));
  REQUIRE(d.offer({2, "cpp", "core", {}}));
  REQUIRE(d.offer({3, "cuda", "gpu", {}}));
  std::map<sample_id, std::int64_t> got;
  while (const auto a = d.next())
    got[a->job.sample] = a->device.device;
  CHECK(got == std::map<sample_id, std::int64_t>{{2, 1}, {3, 0}});
}

TEST_CASE("a run can use the devices of its lane and class") {
  const host_offer mixed{
      {"cpp", "cuda"},
      {{0, "gpu", 4, {"cuda"}}, {1, "gpu", 4, {"cuda"}}, {2, "core", 4, {"cpp"}}, {3, "core", 4}}};
  CHECK(usable_devices(mixed, "cuda", "gpu") == std::vector<std::int64_t>{0, 1});
  CHECK(usable_devices(mixed, "cpp", "core") == std::vector<std::int64_t>{2, 3});
  CHECK(usable_devices(mixed, "cuda", "core") == std::vector<std::int64_t>{3});
  CHECK(usable_devices(mixed, "cpp", "gpu").empty());
  CHECK(classes_text(mixed) == "core (lanes cpp), core (lanes cpp, cuda), gpu (lanes cuda)");
}

TEST_CASE("draining and leaving") {
  dispatcher d({});
  REQUIRE(d.join(1, offer(4)));
  REQUIRE(d.credit({1, 0}, 2));
  REQUIRE(d.offer(job(1)));
  REQUIRE(d.offer(job(2)));
  CHECK(d.next()->job.sample == 1);
  d.drain(1);
  CHECK_FALSE(d.next());
  REQUIRE(d.credit({1, 0}, 3));
  CHECK_FALSE(d.next());
  CHECK_FALSE(d.servable("cpp", "c"));
  d.leave(1);
  CHECK(d.hosts() == 0);
  REQUIRE(d.join(2, offer(1)));
  REQUIRE(d.credit({2, 0}, 1));
  CHECK(d.next()->device.session == 2);
}

TEST_CASE("a host that makes no sense does not join") {
  dispatcher d({8, 1});
  CHECK_FALSE(d.join(1, {{}, {{0, "c", 1}}}));
  CHECK_FALSE(d.join(1, {{"cpp"}, {}}));
  CHECK_FALSE(d.join(1, {{"cpp"}, {{0, "c", 0}}}));
  CHECK_FALSE(d.join(1, {{"cpp"}, {{0, "c", 1}, {0, "c", 1}}}));
  const auto lane = d.join(1, {{"cpp", "cuda"}, {{0, "c", 1, {"cpp", "no_such_lane"}}}});
  REQUIRE_FALSE(lane);
  CHECK(lane.error().message == "device 0 has lane 'no_such_lane', its host offers cpp, cuda");
  REQUIRE(d.join(1, offer()));
  CHECK_FALSE(d.join(1, offer()));
  const auto many = d.join(2, offer());
  REQUIRE_FALSE(many);
  CHECK(many.error().code == base::errc::exhausted);
}

TEST_CASE("a re-check avoids its last device only if there is another one") {
  dispatcher d({});
  REQUIRE(d.join(1, offer(4)));
  REQUIRE(d.credit({1, 0}, 4));
  auto again = job(1);
  again.avoid = device_key{1, 0};
  REQUIRE(d.offer(again));
  CHECK(d.next()->device.session == 1);
  REQUIRE(d.join(2, offer(4)));
  REQUIRE(d.credit({2, 0}, 4));
  for (sample_id s = 2; s <= 5; ++s) {
    again.sample = s;
    REQUIRE(d.offer(again));
    CHECK(d.next()->device.session == 2);
  }
}

/// Random calls against an account kept beside.
TEST_CASE("any order of calls: sent never exceeds granted, every job goes out once") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    base::random_stream random(seed, "dispatcher test");
    dispatcher d({32, 6});
    std::map<session_id, std::int64_t> granted, sent, slots;
    std::set<sample_id> waiting;
    std::set<session_id> gone;
    session_id next_session = 1;
    sample_id next_sample = 1;
    for (int step = 0; step < 300; ++step) {
      const session_id some =
          granted.empty() ? 0
                          : std::next(granted.begin(),
                                      static_cast<std::ptrdiff_t>(random.below(granted.size())))
                                ->first;
      switch (random.below(6)) {
        case 0: {
          const auto n = static_cast<std::int64_t>(1 + random.below(3));
          if (d.join(next_session, offer(n))) {
            granted[next_session] = 0;
            slots[next_session] = n;
          }
          ++next_session;
          break;
        }
        case 1:
          if (some != 0) {
            const auto wish = static_cast<std::int64_t>(
                random.below(static_cast<std::uint64_t>(sent[some] + slots[some] + 2)));
            if (d.credit({some, 0}, wish)) granted[some] = std::max(granted[some], wish);
          }
          break;
        case 2:
          if (random.chance(0.1) && some != 0) {
            d.leave(some);
            granted.erase(some);
            gone.insert(some);
          }
          break;
        case 3:
        case 4:
          if (d.offer(job(next_sample))) waiting.insert(next_sample);
          ++next_sample;
          break;
        default:
          while (const auto a = d.next()) {
            CHECK(waiting.erase(a->job.sample) == 1);
            CHECK(gone.count(a->device.session) == 0);
            CHECK(++sent[a->device.session] <= granted[a->device.session]);
          }
          // Nobody is left with credit while somebody waits.
          for (const auto& [session, n] : granted)
            CHECK((waiting.empty() || sent[session] == n));
      }
      CHECK(d.waiting() == waiting.size());
      CHECK(d.waiting() <= 32);
    }
  }
}

TEST_CASE("a suspended device gets nothing though it asked; it goes on where it stopped") {
  dispatcher d({});
  REQUIRE(d.join(1, {{"cpp"}, {{0, "c", 2}, {1, "c", 2}}}));
  REQUIRE(d.credit({1, 0}, 2));
  d.suspend({1, 0}, true);
  REQUIRE(d.offer(job(1)));
  CHECK_FALSE(d.next());
  REQUIRE(d.credit({1, 0}, 2));  // repeated with a heartbeat
  CHECK_FALSE(d.next());
  CHECK(d.servable("cpp", "c"));
  CHECK(d.has_other("cpp", {1, 0}));
  CHECK_FALSE(d.has_other("cpp", {1, 1}));
  d.suspend({1, 1}, true);
  CHECK_FALSE(d.servable("cpp", "c"));
  CHECK_FALSE(d.has_other("cpp", {1, 0}));
  d.suspend({1, 7}, true);  // unknown
  d.suspend({1, 0}, false);
  d.suspend({1, 0}, false);
  const auto sent = d.next();
  REQUIRE(sent);
  CHECK(sent->device == device_key{1, 0});
  CHECK(d.sent({1, 0}) == 1);
}

TEST_CASE("what is to be done elsewhere waits for another device, and lets others pass") {
  dispatcher d({});
  REQUIRE(d.join(1, {{"cpp"}, {{0, "c", 4}, {1, "c", 4}}}));
  REQUIRE(d.credit({1, 0}, 4));
  auto claim = job(1);
  claim.avoid = device_key{1, 0};
  claim.elsewhere = true;
  REQUIRE(d.offer(claim));
  REQUIRE(d.offer(job(2)));
  // Only the device to be avoided has credit: the job behind goes first.
  const auto other = d.next();
  REQUIRE(other);
  CHECK(other->job.sample == 2);
  CHECK(other->device == device_key{1, 0});
  CHECK_FALSE(d.next());
  REQUIRE(d.credit({1, 1}, 1));
  const auto sent = d.next();
  REQUIRE(sent);
  CHECK(sent->job.sample == 1);
  CHECK(sent->device == device_key{1, 1});
  // Where there is no other one any more, the same has to do.
  claim.sample = 3;
  REQUIRE(d.offer(claim));
  CHECK_FALSE(d.next());
  d.suspend({1, 1}, true);
  const auto same = d.next();
  REQUIRE(same);
  CHECK(same->device == device_key{1, 0});
}

TEST_CASE("what is to be done elsewhere does not wait for a host that takes no more work") {
  for (const bool leaves : {false, true}) {
    CAPTURE(leaves);
    dispatcher d({});
    REQUIRE(d.join(1, {{"cpp"}, {{0, "c", 4}}}));
    REQUIRE(d.join(2, {{"cpp"}, {{0, "c", 4}}}));
    REQUIRE(d.credit({1, 0}, 4));
    auto claim = job(1);
    claim.avoid = device_key{1, 0};
    claim.elsewhere = true;
    REQUIRE(d.offer(claim));
    CHECK_FALSE(d.next());
    if (leaves)
      d.leave(2);
    else
      d.drain(2);
    const auto same = d.next();
    REQUIRE(same);
    CHECK(same->device == device_key{1, 0});
  }
}

}  // namespace
