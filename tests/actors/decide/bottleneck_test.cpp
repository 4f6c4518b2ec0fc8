// Who holds a run back, and how it is said; what is written and read of it.
#include "actors/decide/bottleneck.hpp"

#include <cmath>
#include <limits>

#include "actors/decide/role_board.hpp"
#include "actors/decide/role_report.hpp"
#include "base/clock.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using base::operator""_s;

/// A hundred seconds of a role: percent busy and waiting for a device, the rest without work.
struct spent {
  std::int64_t busy = 0;
  std::int64_t device = 0;
  std::int64_t absent = 0;
};

loop_time hundred_seconds(spent generator, spent learner, spent evaluator, spent control = {2}) {
  loop_time seen;
  seen.wall = 100_s;
  const std::array<spent, run_role_count> all = {generator, learner, evaluator, control};
  constexpr std::array<role_wait, run_role_count> waits = {role_wait::window, role_wait::groups,
                                                           role_wait::jobs, role_wait::messages};
  for (std::size_t i = 0; i < run_role_count; ++i) {
    role_time& role = seen.roles[i];
    role.absent = all[i].absent * 1_s;
    role.busy = all[i].busy * 1_s;
    role.device_wait = all[i].device * 1_s;
    role.idle_for[static_cast<std::size_t>(waits[i])] =
        100_s - role.absent - role.busy - role.device_wait;
  }
  return seen;
}

using roles = std::vector<run_role>;

TEST_CASE("the role that hardly ever waits while the others do") {
  bottleneck found = find_bottleneck(hundred_seconds({45}, {39}, {97}));
  CHECK(found.kind == bottleneck_kind::role);
  CHECK(found.by == roles{run_role::evaluator});
  CHECK(found.text ==
        "held back by the evaluators: busy 97 %; the generator waits 55 % of the time for room in "
        "the staleness window and the learner waits 61 % of the time for finished groups");
  // The learner starves because too little is generated.
  found = find_bottleneck(hundred_seconds({99}, {10}, {30}));
  CHECK(found.by == roles{run_role::generator});
  CHECK(found.text ==
        "held back by the generator: busy 99 %; the learner waits 90 % of the time for finished "
        "groups and the evaluators wait 70 % of the time for candidates");
  found = find_bottleneck(hundred_seconds({50}, {95}, {80}));
  CHECK(found.by == roles{run_role::learner});
  found = find_bottleneck(hundred_seconds({50}, {50}, {50}, {95}));
  CHECK(found.by == roles{run_role::control});
}

TEST_CASE("nobody is blamed where nobody is the one") {
  // By turns, as without staleness.
  bottleneck found = find_bottleneck(hundred_seconds({30}, {30}, {40}));
  CHECK(found.kind == bottleneck_kind::nobody);
  CHECK(found.by.empty());
  CHECK(found.text.find("each waits for others in turn") != std::string::npos);
  // All at work.
  found = find_bottleneck(hundred_seconds({99}, {95}, {98}));
  CHECK(found.kind == bottleneck_kind::nobody);
  CHECK(found.text == "nobody holds the run back: nobody waits for others");
  found = find_bottleneck(hundred_seconds({80}, {80}, {80}));
  CHECK(found.kind == bottleneck_kind::nobody);
  // Between hardly ever and waiting nothing is proven.
  found = find_bottleneck(hundred_seconds({99}, {80}, {80}));
  CHECK(found.kind == bottleneck_kind::nobody);
  // Too little was seen, whatever it looks like.
  loop_time brief = hundred_seconds({45}, {39}, {97});
  brief.wall = 9_s;
  CHECK(find_bottleneck(brief).kind == bottleneck_kind::unknown);
  CHECK(find_bottleneck({}).kind == bottleneck_kind::unknown);
}

TEST_CASE("two hold it back alike; a role that is not there holds it back") {
  bottleneck found = find_bottleneck(hundred_seconds({97}, {30}, {93}));
  CHECK(found.kind == bottleneck_kind::several);
  CHECK(found.by == roles{run_role::generator, run_role::evaluator});
  CHECK(found.text ==
        "held back by the generator and the evaluators alike; the learner waits 70 % of the time "
        "for finished groups");
  found = find_bottleneck(hundred_seconds({10}, {5}, {0, 0, 100}));
  CHECK(found.by == roles{run_role::evaluator});
  CHECK(found.text.starts_with("held back by the evaluators: not there; "));
  // Idle while it was there, and that was seldom.
  found = find_bottleneck(hundred_seconds({40}, {10, 0, 85}, {40}));
  CHECK(found.by == roles{run_role::learner});
  CHECK(found.text.starts_with("held back by the learner: busy 67 %, not there 85 % of the time"));
}

TEST_CASE("a role that the run does not have is neither told of nor blamed") {
  loop_time seen = hundred_seconds({45}, {0, 0, 100}, {97});
  CHECK(find_bottleneck(seen).by == roles{run_role::learner, run_role::evaluator});
  seen.none_of[static_cast<std::size_t>(run_role::learner)] = true;
  CHECK(find_bottleneck(seen).by == roles{run_role::evaluator});
  CHECK_FALSE(test::contains(role_table(seen, "last 1:40"), "learner"));
  const auto line = to_json(seen);
  CHECK_FALSE(line["roles"].contains("learner"));
  const auto read = read_loop_time(base::json::parse(line.dump()));
  REQUIRE(read);
  CHECK_FALSE(read->has(run_role::learner));
  CHECK(read->has(run_role::generator));
  loop_time twice = *read;
  twice += *read;
  CHECK(find_bottleneck(twice).by == roles{run_role::evaluator});
  base::manual_clock clock(0);
  role_board board(clock);
  board.without(run_role::learner);
  clock.advance(60_s);
  CHECK_FALSE(board.window()["roles"].contains("learner"));
  CHECK_FALSE(board.since_last_step()["roles"].contains("learner"));
}

TEST_CASE("roles that wait for their turns on a device") {
  bottleneck found = find_bottleneck(hundred_seconds({40, 55}, {10}, {98}));
  CHECK(found.kind == bottleneck_kind::device);
  CHECK(found.by == roles{run_role::generator});
  CHECK(found.text ==
        "held back by a device that roles share: waiting for a turn on it takes the generator 55 % "
        "of the time");
  found = find_bottleneck(hundred_seconds({40, 55}, {50, 45}, {98}));
  CHECK(found.by == roles{run_role::generator, run_role::learner});
  // A turn that is waited for by a role that has time is nobody's matter.
  found = find_bottleneck(hundred_seconds({30, 25}, {40}, {98}));
  CHECK(found.kind == bottleneck_kind::role);
  CHECK(found.by == roles{run_role::evaluator});
}

TEST_CASE("what is written can be read, and stretches of it add up") {
  loop_time seen = hundred_seconds({45, 5}, {20, 0, 50}, {97});
  seen.of(run_role::generator).done = 12'345;
  seen.of(run_role::evaluator).done = 50;
  const auto line = to_json(seen);
  CHECK(line["span_s"] == 100);
  CHECK(line["tokens_per_s"] == 123.45);
  CHECK(line["evaluations_per_h"] == 1800);
  CHECK(line["roles"]["generator"]["waits_for"]["window"] == 0.5);
  CHECK(line["roles"]["learner"]["absent"] == 0.5);
  const auto read = read_loop_time(base::json::parse(line.dump()));
  REQUIRE(read);
  CHECK(*read == seen);
  loop_time twice = *read;
  twice += *read;
  CHECK(twice.wall == 200_s);
  CHECK(twice.of(run_role::learner).busy_share() == seen.of(run_role::learner).busy_share());
  CHECK(find_bottleneck(twice).text == find_bottleneck(seen).text);
  // Lines of before, and of what is to come.
  CHECK_FALSE(read_loop_time({{"step", 1}, {"seconds", 2.5}}));
  base::json later = base::json::parse(line.dump());
  later["roles"]["critic"] = {{"busy", 1}};
  later["roles"]["generator"]["waits_for"]["rain"] = 0.1;
  CHECK(read_loop_time(later));
  later["roles"]["generator"] = 3;
  CHECK_FALSE(read_loop_time(later));
}

TEST_CASE("a verdict says how long it waited for its turn, or does not") {
  CHECK(device_wait_of(R"({"quern_verdict": 1, "device_wait_ns": 42})") == 42);
  CHECK(device_wait_of(R"({"quern_verdict": 1})") == 0);
  CHECK(device_wait_of(R"({"device_wait_ns": "long"})") == 0);
  CHECK(device_wait_of("[1]") == 0);
  CHECK(device_wait_of("the host gave up") == 0);
}

TEST_CASE("the table of a run") {
  loop_time seen = hundred_seconds({45}, {0, 0, 100}, {97});
  seen.of(run_role::generator).done = 12'345;
  CHECK(role_table(seen, "last 1:40") ==
        "  last 1:40: 123 tokens/s, 0 evaluations/h\n"
        "    role        busy    idle  device wait   waits for\n"
        "    generator   45 %    55 %          0 %   room in the staleness window\n"
        "    learner    not there\n"
        "    evaluator   97 %     3 %          0 %   candidates\n"
        "    control      2 %    98 %          0 %\n"
        "  held back by the learner and the evaluators alike; the generator waits 55 % of the time "
        "for room in the staleness window\n");
}

TEST_CASE("that all devices are in quarantine holds a run back, whatever was seen before") {
  const loop_time seen = hundred_seconds({30}, {30}, {40});
  CHECK(find_bottleneck(seen).kind == bottleneck_kind::nobody);
  const bottleneck now = held_back_by_quarantine();
  CHECK(role_table(seen, "last 1:40", now)
            .ends_with("  held back by the evaluators: all their devices are in quarantine\n"));
  CHECK(to_json(now)["kind"] == "role");
  CHECK(to_json(now)["by"][0] == "evaluator");
}

TEST_CASE("a device is at work while it has a job, however many") {
  base::manual_clock clock;
  role_board board(clock);
  const device_key here{7, 0}, there{8, 1};
  board.device_takes_work(here, true);
  board.device_takes_work(there, true);
  board.job_sent(100, here);
  board.job_sent(101, here);
  board.job_sent(101, here);
  clock.advance(10_s);
  board.job_over(100);
  board.job_over(100);
  clock.advance(10_s);
  board.job_over(101);
  board.job_over(999);
  board.did(run_role::evaluator, 2);
  clock.advance(20_s);
  auto told = board.since_last_step();
  CHECK(told["roles"]["evaluator"]["busy"] == 0.25);
  CHECK(told["roles"]["evaluator"]["waits_for"]["jobs"] == 0.75);
  CHECK(told["evaluations"] == 2);
  CHECK(told["evaluations_per_h"] == 180);
  // In quarantine with a job; the other host is lost with one.
  board.job_sent(102, here);
  board.job_sent(103, there);
  board.device_takes_work(here, false);
  board.session_over(8);
  board.job_over(103);
  clock.advance(10_s);
  told = board.since_last_step();
  CHECK(told["span_s"] == 10);
  CHECK(told["evaluations"] == 0);
  CHECK(told["roles"]["evaluator"]["absent"] == 1);
  CHECK(told["roles"]["evaluator"]["busy"] == 0);
  // Back, with its job, which waited half the time for its turn; then it is returned.
  board.device_takes_work(here, true);
  board.device_takes_work(here, true);
  clock.advance(5_s);
  board.job_over(102, 2'500'000'000);
  clock.advance(5_s);
  told = board.since_last_step();
  CHECK(told["roles"]["evaluator"]["busy"] == 0.25);
  CHECK(told["roles"]["evaluator"]["device_wait"] == 0.25);
  CHECK(told["roles"]["evaluator"]["absent"] == 0);
  CHECK(told["held_back"]["kind"].is_string());
  // Away and back once more: what was waited before is not told again.
  board.device_takes_work(here, false);
  board.device_takes_work(here, true);
  board.job_sent(104, here);
  clock.advance(10_s);
  board.job_over(104, 1'000'000'000);
  CHECK(board.since_last_step()["roles"]["evaluator"]["device_wait"] == 0.1);
  // What a host says of itself may be anything.
  for (const lease_id lease : {105, 106}) {
    board.job_sent(lease, here);
    clock.advance(1_s);
    board.job_over(lease, std::numeric_limits<std::int64_t>::max());
  }
  CHECK(board.since_last_step()["roles"]["evaluator"]["device_wait"] == 1);
  // One that drains waits for nothing.
  board.session_takes_no_work(7);
  clock.advance(10_s);
  CHECK(board.since_last_step()["roles"]["evaluator"]["absent"] == 1);
}

TEST_CASE("control works while it holds a message; a late word on a device spoils no step") {
  base::manual_clock clock;
  role_board board(clock);
  const role_member made = board.joined(run_role::generator);
  board.working(made, true);
  {
    const role_board::control_work now(board);
    clock.advance(1_s);
  }
  clock.advance(9_s);
  CHECK(board.since_last_step()["roles"]["control"]["busy"] == 0.1);
  clock.advance(1_s);
  board.waited_for_device(made, 5_s);
  const auto told = board.since_last_step();
  CHECK(told["roles"]["generator"]["busy"] == 0);
  CHECK(told["roles"]["generator"]["device_wait"] == 1);
  CHECK(board.window()["roles"]["generator"]["device_wait"].get<double>() ==
        doctest::Approx(5.0 / 11).epsilon(0.001));
}

}  // namespace
