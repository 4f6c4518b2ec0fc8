// Processes side by side, with shell scripts for them: what is told of their ends.
#include "actors/process_group.hpp"

#include <functional>
#include <thread>

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using base::operator""_s;

namespace {

struct ended {
  group_end how;
  double seconds = 0;
};

/// By name "a", "b", … with logs called so.
ended run(const std::vector<std::string>& scripts, const group_limits& limits,
          const std::function<pause_request(double)>& asked) {
  const auto folder = base::temp_folder::make().value();
  std::vector<process_plan> plans;
  for (const std::string& text : scripts) {
    const std::string role(1, static_cast<char>('a' + plans.size()));
    plans.push_back({role, {.argv = {"/bin/sh", "-c", text}, .log = folder.path() / role}});
  }
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  auto group = process_group::start(plans, limits).value();
  const auto how = group.wait([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return asked(static_cast<double>(clock.now_ns() - start) / 1e9);
  });
  return {how, static_cast<double>(clock.now_ns() - start) / 1e9};
}

ended run(const std::vector<std::string>& scripts, base::nanoseconds_t others = 20_s) {
  return run(scripts, {.others = others}, [](double) { return pause_request::none; });
}

pause_request after_half_a_second(double seconds) {
  return seconds > 0.5 ? pause_request::in_order : pause_request::none;
}

}  // namespace

TEST_CASE("all ended well, or one has paused by itself") {
  const auto good = run({"exit 0", "sleep 0.1"}).how;
  CHECK_FALSE(good.paused);
  CHECK(good.problem.empty());
  const auto paused = run({"exit 0", "exit 3"}).how;
  CHECK(paused.paused);
  CHECK(paused.problem.empty());
  const auto both = run({"exit 3", "exit 1"}).how;
  CHECK(both.paused);
  CHECK_FALSE(both.lost);
  CHECK(test::contains(both.problem, "b ended: exit code 1"));
}

TEST_CASE("told is whoever said what is wrong, then whoever was killed, then whoever left") {
  const auto killed = run({"exit 4", "kill -9 $$"}).how;
  CHECK(killed.lost);
  CHECK(test::contains(killed.problem, "b ended: killed by signal 9"));
  const auto thrown = run({"exit 4", "exit 5"}).how;
  CHECK(thrown.lost);
  CHECK(test::contains(thrown.problem, "b ended: exit code 5; its log is"));
  const auto left = run({"exit 4", "exit 0"}).how;
  CHECK(left.lost);
  CHECK(test::contains(left.problem, "a ended: exit code 4; its log is"));
  const auto said = run({"exit 4", "kill -9 $$", "sleep 0.2; exit 1"}).how;
  CHECK_FALSE(said.lost);
  CHECK(test::contains(said.problem, "c ended: exit code 1"));
}

TEST_CASE("when one has failed the others have their time, and no more") {
  const auto waited = run({"exit 4", "sleep 1; exit 0"});
  CHECK(test::contains(waited.how.problem, "a ended"));
  const auto cut_off = run({"exit 4", "exec sleep 600"}, 200'000'000);
  CHECK(cut_off.how.lost);
  CHECK(test::contains(cut_off.how.problem, "a ended: exit code 4"));
  CHECK(test::contains(cut_off.how.problem, "b did not end by itself and was killed"));
  CHECK(cut_off.seconds < 300);
  // One that ended well, or paused, is no reason to wait for ever, and no failure either.
  for (const char* first : {"exit 0", "exit 3"}) {
    const auto left_alone = run({first, "exec sleep 600"}, 200'000'000);
    CHECK(left_alone.how.problem.empty());
    CHECK(left_alone.how.paused == (first == std::string("exit 3")));
    CHECK(left_alone.seconds < 300);
  }
}

TEST_CASE("a pause that is asked for is passed on") {
  const std::string pausing = "trap 'exit 3' TERM; while :; do sleep 0.05; done";
  const auto paused = run({pausing, pausing}, {.others = 20_s}, after_half_a_second);
  CHECK(paused.how.paused);
  CHECK(paused.how.problem.empty());
  CHECK(paused.seconds < 300);
  // One that is stopped goes on with it, and keeps what it has.
  const auto stopped = run({"trap 'exit 3' TERM; kill -STOP $$; while :; do sleep 0.05; done"}, {},
                           after_half_a_second);
  CHECK(stopped.how.paused);
  CHECK(stopped.how.problem.empty());
}

TEST_CASE("a pause that is not answered ends at its limit, or at once when that is asked for") {
  const std::string deaf = "trap '' TERM; while :; do sleep 0.05; done";
  const auto late = run({deaf, "exit 0"}, {.pause = 300'000'000}, after_half_a_second);
  CHECK(late.how.paused);
  CHECK(late.how.problem.empty());
  CHECK(late.seconds > 0.7);
  const auto at_once = run({deaf}, {}, [](double seconds) {
    return seconds > 1 ? pause_request::at_once : after_half_a_second(seconds);
  });
  CHECK(at_once.how.paused);
  CHECK(at_once.how.problem.empty());
}

TEST_CASE("who uses no time of a processor is killed and lost, who is slow is not") {
  const auto nobody_asks = [](double) { return pause_request::none; };
  const auto frozen = run({"kill -STOP $$"}, {.silence = 1_s}, nobody_asks);
  CHECK(frozen.how.lost);
  CHECK_FALSE(frozen.how.paused);
  CHECK(test::contains(frozen.how.problem, "a gave no sign of life for 1 s and was killed"));
  const auto slow =
      run({"i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done"}, {.silence = 1_s}, nobody_asks);
  CHECK(slow.how.problem.empty());
}

TEST_CASE("where one is lost the others may be asked to pause, which is no pause of the run") {
  const auto lost =
      run({"sleep 0.5; kill -9 $$", "trap 'exit 3' TERM; while :; do sleep 0.05; done"},
          {.pause_others = true}, [](double) { return pause_request::none; });
  CHECK(lost.how.lost);
  CHECK_FALSE(lost.how.paused);
  CHECK(test::contains(lost.how.problem, "a ended: killed by signal 9"));
}

TEST_CASE("who says what is wrong in a log is quoted") {
  const auto said = run({"echo first; echo the disk is full; exit 1"}).how;
  CHECK(test::contains(said.problem, "a ended: exit code 1 (the disk is full); its log is"));
}
