// Processes side by side, with shell scripts for them: what is told of their ends.
#include "actors/process_group.hpp"

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
ended run(const std::vector<std::string>& scripts, base::nanoseconds_t patience = 20_s,
          bool pause = false) {
  const auto folder = base::temp_folder::make().value();
  std::vector<process_plan> plans;
  for (const std::string& text : scripts) {
    const std::string role(1, static_cast<char>('a' + plans.size()));
    plans.push_back({role, {.argv = {"/bin/sh", "-c", text}, .log = folder.path() / role}});
  }
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  auto group = process_group::start(plans, patience).value();
  const auto how = group.wait([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return pause && clock.now_ns() - start > 500'000'000;
  });
  return {how, static_cast<double>(clock.now_ns() - start) / 1e9};
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
  const auto paused = run({"trap 'exit 3' TERM; while :; do sleep 0.05; done",
                           "trap 'exit 3' TERM; while :; do sleep 0.05; done"},
                          20_s, true);
  CHECK(paused.how.paused);
  CHECK(paused.how.problem.empty());
  CHECK(paused.seconds < 300);
}
