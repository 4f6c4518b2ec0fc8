// Processes that work together: blame, deadlines and restarts, on a clock of the test's own.
#include "actors/decide/joint_policy.hpp"

#include <signal.h>

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using base::operator""_s;

namespace {

using joint_outcome = joint_policy::outcome::kind;

joint_end exited(const std::string& process, int code, const std::string& words = "") {
  return {process, {code, 0}, process + ".log", words};
}

joint_end killed(const std::string& process) {
  return {process, {0, SIGKILL}, process + ".log", ""};
}

/// Two processes, started at 0.
joint_policy two(const joint_limits& limits = {}) {
  joint_policy made("letters", "record", limits, 0);
  made.started({"a", "b"}, 0);
  return made;
}

std::int64_t nothing_new() {
  return 0;
}

using names = std::vector<std::string>;

}  // namespace

TEST_CASE("all that end well have finished; one that pauses by itself pauses the run") {
  for (const int code : {0, 3}) {
    joint_policy role = two();
    role.ended(exited("a", 0), 1_s);
    CHECK_FALSE(role.all_ended());
    role.ended(exited("b", code), 2_s);
    REQUIRE(role.all_ended());
    CHECK(role.settle(nothing_new, 2_s).how ==
          (code == 0 ? joint_outcome::finished : joint_outcome::paused));
  }
}

TEST_CASE("what one says is wrong is told before a kill, and that before one that left for it") {
  joint_policy role = two();
  role.started({"a", "b", "c"}, 0);
  role.ended(exited("a", 4), 1_s);
  role.ended(killed("b"), 2_s);
  joint_policy with_words = role;
  role.ended(exited("c", 0), 3_s);
  const auto lost = role.settle(nothing_new, 3_s);
  CHECK(lost.how == joint_outcome::again);
  CHECK(test::contains(lost.message, "b ended: killed by signal 9"));
  CHECK(test::contains(lost.message, "its log is b.log; it goes on from the last record"));
  with_words.ended(exited("c", 1, "the disk is full"), 3_s);
  const auto said = with_words.settle(nothing_new, 3_s);
  CHECK(said.how == joint_outcome::failed);
  CHECK(said.message == "c ended: exit code 1 (the disk is full); its log is c.log");
}

TEST_CASE("the others have their time when one has ended, and are killed once") {
  joint_policy role = two({.others = 5_s});
  role.ended(exited("a", 4), 10_s);
  CHECK(role.look(15_s).kill.empty());
  CHECK(role.look(16_s).kill == names{"b"});
  CHECK(role.look(17_s).kill.empty());
  role.ended(killed("b"), 18_s);
  CHECK(test::contains(role.settle(nothing_new, 18_s).message,
                       "a ended: exit code 4; its log is a.log; b did not end by itself"));
}

TEST_CASE("a pause is asked for once, has a limit, and ends at once where that is asked for") {
  joint_policy role = two({.pause = 5_s});
  CHECK_FALSE(role.look(1_s).pause);
  role.asked_to_pause(pause_request::in_order);
  CHECK(role.look(2_s).pause);
  CHECK_FALSE(role.look(3_s).pause);
  joint_policy impatient = role;
  CHECK(role.look(7_s).kill.empty());
  const auto late = role.look(8_s);
  CHECK(late.kill == names{"a", "b"});
  CHECK(test::contains(late.warning, "no pause within 5 s"));
  impatient.asked_to_pause(pause_request::at_once);
  CHECK(impatient.look(3_s).kill == names{"a", "b"});
  for (joint_policy* one : {&role, &impatient}) {
    one->ended(killed("a"), 9_s);
    one->ended(killed("b"), 9_s);
    CHECK(one->settle(nothing_new, 9_s).how == joint_outcome::paused);
  }
}

TEST_CASE("one that uses no processor is killed; while its owner was held up nobody is") {
  joint_policy role = two({.silence = 60_s});
  for (base::nanoseconds_t now = 0; now <= 70_s; now += 1_s) {
    CHECK(role.to_be_heard(now) == names{"a", "b"});
    role.heard("a", "1 1", now);
    role.heard("b", std::to_string(now), now);
    CHECK(role.look(now).kill == (now == 61_s ? names{"a"} : names{}));
  }
  CHECK(role.to_be_heard(70_s).empty());
  joint_policy held_up = two({.silence = 60_s});
  for (const base::nanoseconds_t now : {0_s, 30_s, 3600_s}) {
    for (const std::string& name : held_up.to_be_heard(now))
      held_up.heard(name, "1", now);
    CHECK(held_up.look(now).kill.empty());
  }
  role.ended(killed("a"), 71_s);
  role.ended(exited("b", 4), 71_s);
  CHECK(test::contains(role.settle(nothing_new, 71_s).message,
                       "a gave no sign of life for 60 s and was killed"));
}

TEST_CASE("losses are answered within limits, and only while something new is kept") {
  joint_limits limits;
  limits.restarts = {3, 1000_s, 1_s, 10_s};
  joint_policy fruitful("letters", "record", limits, 0), in_vain = fruitful;
  std::int64_t kept = 0;
  for (int round = 0; round < 4; ++round) {
    for (joint_policy* one : {&fruitful, &in_vain}) {
      one->started({"a"}, 0);
      one->ended(killed("a"), 0);
    }
    const auto more = fruitful.settle([&] { return ++kept; }, 2000_s * round);
    CHECK(more.how == joint_outcome::again);
    CHECK(more.delay_ns == 1_s);
    CHECK(fruitful.in_vain() == 1);
    // Outside of the window, so that nothing but the want of news ends it.
    const auto none = in_vain.settle(nothing_new, 2000_s * round);
    CHECK(none.how == (round < 3 ? joint_outcome::again : joint_outcome::failed));
  }
  joint_policy soon("letters", "record", limits, 0);
  for (int round = 0; round < 4; ++round) {
    soon.started({"a"}, 0);
    soon.ended(killed("a"), 0);
    const auto outcome = soon.settle([&] { return ++kept; }, 1_s * round);
    CHECK(outcome.how == (round < 3 ? joint_outcome::again : joint_outcome::failed));
    if (round == 3)
      CHECK(test::contains(outcome.message,
                           "1 losses since the last new record, of 4 within 1000 s "
                           "(actors.restarts is 3)"));
  }
}
