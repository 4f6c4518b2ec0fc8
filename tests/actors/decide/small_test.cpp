// The small deciders: tasks in passes, restarts, progress, links.
#include <cmath>
#include <map>

#include "actors/decide/drop_tally.hpp"
#include "actors/decide/end_order.hpp"
#include "actors/decide/link_book.hpp"
#include "actors/decide/loss_watch.hpp"
#include "actors/decide/plural_policy.hpp"
#include "actors/decide/progress.hpp"
#include "actors/decide/restart_policy.hpp"
#include "actors/decide/shortage_watch.hpp"
#include "actors/decide/task_sampler.hpp"
#include "actors/decide/unjudged_streak.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using base::operator""_ms;
using base::operator""_s;

TEST_CASE("each pass asks every task by its weight, in an order of its own") {
  auto sampler = task_sampler::make(3, {{"a"}, {"b", false, 3}, {"c"}, {"d", false, 0}});
  REQUIRE(sampler);
  CHECK(sampler->pass_length() == 5);
  std::vector<std::string> asked;
  std::map<std::string, int> counts;
  for (std::int64_t n = 0; n < 500; ++n) {
    asked.push_back(sampler->task_of(n));
    ++counts[asked.back()];
  }
  CHECK(counts == std::map<std::string, int>{{"a", 100}, {"b", 300}, {"c", 100}});
  bool differs = false;
  for (std::int64_t n = 0; n < 5; ++n) {
    differs =
        differs || asked[static_cast<std::size_t>(n)] != asked[static_cast<std::size_t>(n + 5)];
  }
  CHECK(differs);
  // Any order of questions, after any resume: the same answers.
  auto again = task_sampler::make(3, {{"a"}, {"b", false, 3}, {"c"}, {"d", false, 0}});
  for (const std::int64_t n : {499, 3, 77, 3, 0}) {
    CHECK(again->task_of(n) == asked[static_cast<std::size_t>(n)]);
  }
}

TEST_CASE("a held-out task is refused by name") {
  const auto bad = task_sampler::make(1, {{"a"}, {"secret", true}});
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message.find("secret") != std::string::npos);
  CHECK_FALSE(task_sampler::make(1, {}));
  CHECK_FALSE(task_sampler::make(1, {{"a"}, {"a"}}));
  CHECK_FALSE(task_sampler::make(1, {{"a", false, -1}}));
  CHECK_FALSE(task_sampler::make(1, {{"a", false, 0}}));
}

TEST_CASE("restarts: sooner, later, not any more; roles do not share") {
  restart_policy policy({3, 60_s, 100_ms, 300_ms});
  CHECK(policy.died("learner", 0).delay_ns == 100_ms);
  CHECK(policy.died("learner", 1_s).delay_ns == 200_ms);
  CHECK(policy.died("learner", 2_s).delay_ns == 300_ms);
  CHECK(policy.died("host", 2_s).delay_ns == 100_ms);
  const auto fourth = policy.died("learner", 3_s);
  CHECK_FALSE(fourth.restart);
  CHECK(fourth.deaths == 4);
  const auto later = policy.died("learner", 100_s);
  CHECK(later.restart);
  CHECK(later.deaths == 1);
  CHECK(later.delay_ns == 100_ms);
}

plural_limits few_restarts() {
  plural_limits limits;
  limits.restarts = {2, 60_s, 100_ms, 10_s};
  limits.aside_ns = 30_s;
  limits.longest_aside_ns = 50_s;
  limits.absence_ns = 600_s;
  return limits;
}

TEST_CASE("one of several that keeps dying is set aside, and tried again after growing pauses") {
  plural_policy evaluators(few_restarts());
  evaluators.expect(2);
  evaluators.present(2, false, 0);
  CHECK(evaluators.died("evaluator-1", 1_s).delay_ns == 100_ms);
  CHECK(evaluators.died("evaluator-1", 2_s).delay_ns == 200_ms);
  nanoseconds_t now = 3_s;
  for (const nanoseconds_t pause : {30_s, 50_s, 50_s, 50_s}) {
    const auto aside = evaluators.died("evaluator-1", now);
    CHECK(aside.aside);
    CHECK_FALSE(aside.end);
    CHECK(aside.delay_ns == pause);
    // It comes back, but not for long.
    CHECK(evaluators.joined("evaluator-1"));
    CHECK_FALSE(evaluators.joined("evaluator-1"));
    now += pause + 5_s;
  }
  // The other one is none of its business, and while that works nothing ends.
  CHECK(evaluators.died("evaluator-0", now).delay_ns == 100_ms);
  CHECK_FALSE(evaluators.gives_up_at());
  CHECK_FALSE(evaluators.absent_for_long(now + 10'000_s));
  // After a window of peace it is like any other.
  const auto later = evaluators.died("evaluator-1", now + 60_s);
  CHECK_FALSE(later.aside);
  CHECK(later.delay_ns == 100_ms);
}

TEST_CASE("a run ends after ten minutes without any evaluator, and not before") {
  plural_policy evaluators(few_restarts());
  evaluators.expect(1);
  evaluators.present(1, false, 0);
  // Those of other hosts are waited for: nobody here can tell whether they come.
  evaluators.present(0, false, 5_s);
  CHECK_FALSE(evaluators.gives_up_at());
  evaluators.present(1, false, 6_s);
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(evaluators.died("evaluator-0", 10_s + i * 1_s).end);
  evaluators.present(0, false, 13_s);
  CHECK(evaluators.gives_up_at() == 613_s);
  evaluators.present(0, false, 100_s);  // said again: no later
  CHECK_FALSE(evaluators.absent_for_long(612_s));
  CHECK(evaluators.absent_for_long(613_s));
  evaluators.present(1, false, 614_s);
  CHECK_FALSE(evaluators.absent_for_long(10'000_s));
}

TEST_CASE("evaluators whose devices are all in quarantine are absent, whoever started them") {
  plural_policy evaluators(few_restarts());
  evaluators.expect(1);
  evaluators.present(1, false, 0);
  evaluators.present(0, true, 5_s);
  CHECK(evaluators.gives_up_at() == 605_s);
  CHECK_FALSE(evaluators.absent_for_long(604_s));
  CHECK(evaluators.absent_for_long(605_s));
  // A device has passed its test.
  evaluators.present(1, false, 606_s);
  CHECK_FALSE(evaluators.gives_up_at());
  // One that leaves in quarantine is waited for, like any other of another host.
  evaluators.present(0, true, 700_s);
  evaluators.present(0, false, 710_s);
  CHECK_FALSE(evaluators.gives_up_at());
}

TEST_CASE("a run that drains does not end because its evaluators are absent") {
  plural_policy evaluators(few_restarts());
  evaluators.expect(1);
  evaluators.present(1, false, 0);
  evaluators.present(0, true, 5_s);
  REQUIRE(evaluators.absent_for_long(605_s));
  evaluators.draining();
  CHECK_FALSE(evaluators.gives_up_at());
  CHECK_FALSE(evaluators.absent_for_long(605_s));
  // A step that was left out would need more samples; this run makes none.
  evaluators.needed(true, 606_s);
  CHECK_FALSE(evaluators.gives_up_at());
}

TEST_CASE("evaluators may be absent while nothing is left for them, and count from when there is") {
  plural_policy evaluators(few_restarts());
  evaluators.expect(1);
  evaluators.present(1, false, 0);
  evaluators.present(0, true, 5_s);
  CHECK(evaluators.gives_up_at() == 605_s);
  // A last step that takes an hour.
  evaluators.needed(false, 100_s);
  CHECK_FALSE(evaluators.is_needed());
  CHECK_FALSE(evaluators.gives_up_at());
  CHECK_FALSE(evaluators.absent_for_long(3'000_s));
  // The learner was lost with it: there are samples to be made again.
  evaluators.needed(true, 3'700_s);
  CHECK(evaluators.gives_up_at() == 4'300_s);
  evaluators.needed(true, 3'800_s);  // said again: no later
  CHECK_FALSE(evaluators.absent_for_long(4'299_s));
  CHECK(evaluators.absent_for_long(4'300_s));
  // Away since then only.
  evaluators.present(1, false, 4'300_s);
  evaluators.present(0, true, 4'400_s);
  CHECK(evaluators.gives_up_at() == 5'000_s);
}

TEST_CASE("that no device is left is said at once, every two minutes, and when it is over") {
  using news = shortage_watch::news;
  shortage_watch watch(60_s);
  CHECK(watch.look(1, false, true, 1_s) == news::none);
  CHECK_FALSE(watch.due());
  CHECK(watch.look(1, true, true, 2_s) == news::none);
  CHECK(watch.look(0, true, true, 10_s) == news::begun);
  CHECK(watch.due() == 130_s);
  CHECK(watch.look(0, true, true, 129_s) == news::none);
  // The host has left in the meantime.
  CHECK(watch.look(0, false, true, 130_s) == news::goes_on);
  CHECK(watch.lasted(130_s) == 120_s);
  CHECK(watch.look(0, true, true, 131_s) == news::none);
  CHECK(watch.look(0, true, true, 251_s) == news::goes_on);
  CHECK(watch.look(2, false, true, 300_s) == news::over);
  CHECK(watch.lasted(300_s) == 290_s);
  CHECK_FALSE(watch.due());
  CHECK(watch.look(0, true, false, 400_s) == news::begun);
}

TEST_CASE("that nobody has come, or is left, is said after a while, if somebody is needed") {
  using news = shortage_watch::news;
  shortage_watch watch(60_s);
  CHECK(watch.look(0, false, true, 5_s) == news::none);
  CHECK(watch.due() == 65_s);
  CHECK(watch.look(0, false, true, 64_s) == news::none);
  CHECK(watch.look(0, false, true, 65_s) == news::begun);
  CHECK(watch.lasted(65_s) == 60_s);
  CHECK(watch.due() == 185_s);
  CHECK(watch.look(0, false, true, 185_s) == news::goes_on);
  CHECK(watch.look(1, false, true, 200_s) == news::over);
  // Leaves in the last step.
  CHECK(watch.look(0, false, false, 300_s) == news::none);
  CHECK_FALSE(watch.due());
  CHECK(watch.look(0, false, false, 900_s) == news::none);
  // It has to be taken again.
  CHECK(watch.look(0, false, true, 1'000_s) == news::none);
  CHECK(watch.look(0, false, false, 1'030_s) == news::none);
  CHECK(watch.look(0, false, true, 1'040_s) == news::none);
  CHECK(watch.look(0, false, true, 1'099_s) == news::none);
  CHECK(watch.look(0, false, true, 1'100_s) == news::begun);
}

TEST_CASE("evaluators that were never there end the run when all are set aside") {
  plural_policy evaluators(few_restarts());
  evaluators.expect(2);
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(evaluators.died("evaluator-0", i * 1_s).aside);
    CHECK_FALSE(evaluators.died("evaluator-1", i * 1_s).aside);
  }
  CHECK_FALSE(evaluators.died("evaluator-0", 3_s).end);
  CHECK(evaluators.died("evaluator-1", 3_s).end);
}

TEST_CASE(
    "losses beyond 5 % of the last 200 samples are told once, again while they go on, and "
    "when they are over") {
  using news = loss_watch::news;
  loss_watch watch;
  // 4 %: nobody is told.
  for (int i = 0; i < 500; ++i)
    CHECK(watch.ended(i % 25 == 0) == news::none);
  CHECK(watch.lost() == 8);
  CHECK(watch.seen() == 200);
  // Ten are allowed, the eleventh is not.
  loss_watch fresh;
  for (int i = 0; i < 10; ++i)
    CHECK(fresh.ended(true) == news::none);
  CHECK(fresh.ended(true) == news::begun);
  CHECK(fresh.too_many());
  int again = 0;
  for (int i = 0; i < 100; ++i)
    again += fresh.ended(true) == news::goes_on ? 1 : 0;
  CHECK(again == 2);
  int over = 0;
  for (int i = 0; i < 200; ++i)
    over += fresh.ended(false) == news::over ? 1 : 0;
  CHECK(over == 1);
  CHECK_FALSE(fresh.too_many());
}

TEST_CASE("progress: pace, time left, watchdog") {
  progress run({10, 4, 5_s}, 0, 0);
  CHECK_FALSE(run.eta(0));
  CHECK(run.line(0) == "step 0/10  0 %");
  run.stepped(1, 2_s);
  CHECK(run.eta(2_s) == 18_s);
  CHECK(run.eta(3_s) == 17_s);
  CHECK(run.eta(30_s) == 16_s);
  run.stepped(2, 4_s);
  run.stepped(3, 14_s);  // one slow step does not move the median
  CHECK(run.eta(14_s) == 14_s);
  CHECK(run.line(14_s) == "step 3/10  30 %  2.0 s/step  left 0:14");
  CHECK_FALSE(run.stalled(18_s));
  CHECK(run.stalled(19_s));
  run.alive(19_s);
  CHECK_FALSE(run.stalled(20_s));
  run.stepped(2, 20_s);  // a rollback
  CHECK_FALSE(run.eta(20_s));
  progress endless({0, 4, 5_s}, 7, 0);
  endless.stepped(8, 1_s);
  CHECK_FALSE(endless.eta(1_s));
  CHECK(endless.line(1_s) == "step 8  1.0 s/step");
  CHECK(duration_text(3723_s) == "1:02:03");
  CHECK(duration_text(-1) == "0:00");
}

TEST_CASE("links: one a generator, opened once the learner is there, each once") {
  constexpr const char* place = "unix:/folder";
  link_book links(true);
  const std::string first = links.add(3, place), second = links.add(3, place);
  CHECK(first == "unix:/folder/weights-3-1");
  CHECK(second == "unix:/folder/weights-3-2");
  CHECK(links.take_due().empty());
  links.drop(first);
  links.learner_came();
  CHECK(links.take_due() == std::vector<std::string>{second});
  CHECK(links.take_due().empty());
  // A generator that comes again has an address that was never used.
  const std::string third = links.add(3, place);
  CHECK(links.take_due() == std::vector<std::string>{third});
  links.add(3, place);
  links.learner_lost();
  CHECK(links.add(4, "tcp://10.0.0.7:99") == "tcp://10.0.0.7:99/weights-4-5");
  CHECK(links.take_due().empty());
  links.learner_came();
  CHECK(links.take_due().size() == 1);
  link_book none;
  none.learner_came();
  CHECK(none.add(1, place).empty());
  CHECK(none.take_due().empty());
}

TEST_CASE("samples without a verdict are warned of, and end a run when evaluators are to blame") {
  using action = unjudged_streak::action;
  unjudged_streak streak(/*group_size=*/8);
  CHECK(streak.most() == 256);
  int warned = 0;
  for (int i = 1; i < streak.most(); ++i)
    warned += streak.unjudged(true) == action::warn ? 1 : 0;
  CHECK(warned == (streak.most() - 1) / unjudged_streak::warn_every);
  CHECK(streak.unjudged(true) == action::give_up);
  streak.judged();
  CHECK(streak.length() == 0);
  CHECK(streak.unjudged(true) == action::none);
  // Noise alone never ends a run.
  streak.judged();
  for (int i = 0; i < 10 * streak.most(); ++i)
    CHECK(streak.unjudged(false) != action::give_up);
}

TEST_CASE("the first order to end a run wins") {
  end_order order;
  CHECK_FALSE(order.given());
  CHECK(order.give(ending::stop));
  CHECK_FALSE(order.give(ending::pause));
  CHECK(order.given() == ending::stop);
}

TEST_CASE("time in which a watch did not run is not counted") {
  using base::operator""_s;
  base::stood_still gap(100_s);
  CHECK(gap.until(105_s, 90_s) == 0);
  CHECK(gap.until(115_s, 90_s) == 0);
  // Stopped for an hour; what was begun just before it woke has had its time.
  CHECK(gap.until(3725_s, 110_s) == 3600_s);
  CHECK(gap.until(7335_s, 7330_s) == 5_s);
  CHECK(gap.until(9000_s, 9001_s) == 0);
}

TEST_CASE("a task that cannot be judged does not end a run by a few large groups of it") {
  using action = unjudged_streak::action;
  constexpr std::int64_t group_size = 1024;
  unjudged_streak streak(group_size);
  for (int i = 0; i < 4 * group_size; ++i)
    CHECK(streak.unjudged(true) != action::give_up);
  streak.judged();
  for (int i = 1; i < 8 * group_size; ++i)
    CHECK(streak.unjudged(true) != action::give_up);
  CHECK(streak.unjudged(true) == action::give_up);
}

TEST_CASE("drops are said at the first of a reason and at every doubling") {
  drop_tally tally;
  CHECK(tally.dropped("stale", 1) == "samples dropped since this start: stale 1");
  CHECK(tally.dropped("stale", 1) == "samples dropped since this start: stale 2");
  CHECK_FALSE(tally.dropped("stale", 1));
  CHECK(tally.dropped("infra_error", 9) ==
        "samples dropped since this start: infra_error 9, stale 3");
  CHECK_FALSE(tally.dropped("infra_error", 6));
  CHECK(tally.dropped("infra_error", 40) ==
        "samples dropped since this start: infra_error 55, stale 3");
  CHECK(tally.take() == drop_counts{{"infra_error", 55}, {"stale", 3}});
  CHECK(tally.take().empty());
  tally.dropped("stale", 1);
  CHECK(tally.take() == drop_counts{{"stale", 1}});
}

}  // namespace
