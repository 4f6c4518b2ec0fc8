// When a learner that does not answer is taken for one that hangs, by a clock in the hand.
#include "actors/decide/step_watch.hpp"

#include "base/file.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using base::operator""_ms;
using base::operator""_s;

/// Load 100 s, first step 60 s, steps 20 s or three times the median of five, checkpoint 50 s.
constexpr step_limits some_limits{100_s, 60_s, 20_s, 3, 50_s, 5, 10_s};

struct watched_learner {
  base::manual_clock clock;
  step_watch watch{some_limits, clock};

  /// Time passes and the watch is asked each second, until it says something.
  std::optional<overdue_work> pass(int seconds) {
    for (int s = 0; s < seconds; ++s) {
      clock.advance(1_s);
      if (const auto late = watch.look()) return late;
    }
    return std::nullopt;
  }
  void step(weights_version from, int seconds) {
    watch.sent(learner_work::step, from);
    CHECK_FALSE(pass(seconds));
    watch.answered(learner_work::step, from);
  }
};

TEST_CASE("a learner that has nothing to do may take any time") {
  watched_learner one;
  CHECK_FALSE(one.pass(100'000));
  one.watch.sent(learner_work::load, 0);
  CHECK_FALSE(one.pass(99));
  one.watch.answered(learner_work::load, 0);
  CHECK_FALSE(one.pass(100'000));
  one.step(0, 5);
  CHECK_FALSE(one.pass(100'000));
}

TEST_CASE("what is not answered is told with phase, version, the seconds waited and the limit") {
  watched_learner one;
  one.watch.sent(learner_work::load, 7);
  const auto loading = one.pass(1000);
  REQUIRE(loading);
  CHECK(loading->work == learner_work::load);
  CHECK(loading->waited == 100_s);
  CHECK(test::contains(loading->text(), "version 7, after loading 100.0 s; the limit is 100.0 s"));
  one.watch.answered(learner_work::load, 7);

  one.watch.sent(learner_work::step, 7);
  CHECK_FALSE(one.pass(59));
  const auto first = one.pass(1);
  REQUIRE(first);
  CHECK(first->version == 7);
  CHECK(first->limit == 60_s);
  CHECK(
      test::contains(first->text(), "the step from version 7, after 60.0 s; the limit is 60.0 s"));
  one.watch.answered(learner_work::step, 7);

  one.watch.sent(learner_work::checkpoint, 8);
  const auto saving = one.pass(1000);
  REQUIRE(saving);
  CHECK(saving->waited == 50_s);
  CHECK(test::contains(saving->text(), "the checkpoint of version 8"));
}

TEST_CASE("the limit of a step is many times the median of the recent ones, and has a least") {
  watched_learner one;
  for (weights_version from = 0; from < 3; ++from)
    one.step(from, 2);
  one.watch.sent(learner_work::step, 3);
  CHECK_FALSE(one.pass(19));
  CHECK(one.pass(1)->limit == 20_s);
  one.watch.answered(learner_work::step, 3);
  // Slower and slower: one outlier does not move the median, five steps do.
  one.step(4, 15);
  one.watch.sent(learner_work::step, 5);
  CHECK(one.pass(100)->limit == 20_s);
  one.watch.answered(learner_work::step, 5);
  for (weights_version from = 6; from < 11; ++from)
    one.step(from, 12);
  one.watch.sent(learner_work::step, 11);
  CHECK_FALSE(one.pass(35));
  CHECK(one.pass(1)->limit == 36_s);
}

TEST_CASE("a checkpoint and a step are awaited side by side") {
  watched_learner one;
  one.step(0, 1);
  one.watch.sent(learner_work::checkpoint, 1);
  for (weights_version from = 1; from < 5; ++from)
    one.step(from, 10);
  one.watch.sent(learner_work::step, 5);
  const auto late = one.pass(1000);
  REQUIRE(late);
  CHECK(late->work == learner_work::checkpoint);
  CHECK(late->waited == 50_s);
}

TEST_CASE("after a loss nothing is awaited, limits double, and a step makes them what they were") {
  watched_learner one;
  one.step(0, 2);
  one.watch.sent(learner_work::step, 1);
  REQUIRE(one.pass(1000));
  CHECK(one.watch.lost() == 1);
  CHECK_FALSE(one.pass(1000));
  one.watch.sent(learner_work::load, 0);
  CHECK(one.pass(1000)->limit == 200_s);
  CHECK(one.watch.lost() == 2);
  // The first one of a learner again.
  one.watch.sent(learner_work::step, 0);
  CHECK(one.pass(1000)->limit == 240_s);
  one.watch.answered(learner_work::step, 0);
  one.watch.sent(learner_work::step, 1);
  CHECK(one.pass(1000)->limit > 60_s);
  CHECK(one.watch.lost() == 1);
  for (int i = 0; i < 40; ++i)
    one.watch.lost();
  one.watch.sent(learner_work::checkpoint, 1);
  CHECK(one.pass(10'000)->limit == 64 * 50_s);
}

TEST_CASE("an answer to something else is none") {
  watched_learner one;
  one.watch.sent(learner_work::checkpoint, 8);
  one.watch.answered(learner_work::checkpoint, 7);
  CHECK(one.pass(1000)->waited == 50_s);
  one.watch.answered(learner_work::checkpoint, 8);
  CHECK_FALSE(one.pass(1000));
}

TEST_CASE("losses before the watch was made count until the first step") {
  watched_learner one;
  one.watch.lost_before(2);
  CHECK(one.watch.limit_of(learner_work::step) == 4 * 60_s);
  one.step(0, 200);
  CHECK(one.watch.limit_of(learner_work::step) == 3 * 200_s);
}

TEST_CASE("a watcher that was itself held up blames nobody") {
  watched_learner one;
  one.watch.sent(learner_work::step, 0);
  CHECK_FALSE(one.pass(30));
  // The disk of control stood still; the answer is behind this look in the mailbox.
  one.clock.advance(500_s);
  CHECK_FALSE(one.watch.look());
  CHECK_FALSE(one.pass(19));
  CHECK(one.pass(1)->waited == 60_s);
  // What is sent while nobody looks begins then.
  watched_learner other;
  other.clock.advance(300_s);
  other.watch.sent(learner_work::step, 0);
  CHECK_FALSE(other.watch.look());
  CHECK_FALSE(other.pass(59));
  CHECK(other.pass(1));
}

TEST_CASE("limits grow with the bytes that are moved") {
  CHECK(with_bytes(std::chrono::seconds(10), 0) == 10_s);
  CHECK(with_bytes(std::chrono::seconds(10), 500'000'000) == 20_s);
  const auto small = step_limits::of_model(0), large = step_limits::of_model(15'000'000'000);
  CHECK(small.load == std::chrono::nanoseconds(defaults::load_deadline).count());
  CHECK(large.load == small.load + 2400_s);
  CHECK(large.checkpoint == small.checkpoint + 2400_s);
  CHECK(large.step == small.step);
  // An hour at most for a policy of 7 billion parameters in bfloat16.
  CHECK(large.load <= 3600_s);
  const auto folder = base::temp_folder::make().value();
  CHECK(bytes_at(folder.path() / "none") == 0);
  REQUIRE(base::make_folders(folder.path() / "part"));
  REQUIRE(base::write_file_atomic(folder.path() / "a", "12345"));
  REQUIRE(base::write_file_atomic(folder.path() / "part/b", "678"));
  CHECK(bytes_at(folder.path()) == 8);
  CHECK(bytes_at(folder.path() / "a") == 5);
}

}  // namespace
