// The dispatch actor between an evaluator host that speaks the protocol by hand and an orchestrator
// actor that only listens.
#include <algorithm>

#include "actors/control/dispatching.hpp"
#include "env/verdict/verdict.hpp"
#include "support/caught_stderr.hpp"

using namespace quern;
using namespace quern::actors;
using namespace quern::test;

TEST_CASE("a drain gives back 1,999 queued jobs at once, and the one that runs when it fails") {
  dispatching d;
  const auto session = d.join();

  constexpr sample_id jobs = 2'000;
  for (sample_id sample = 1; sample <= jobs; ++sample)
    caf::anon_send(*d.dispatch,
                   evaluate_sample{1, sample, d.tasks->tasks()[0].id, "int v;\n", 0, 0, 0});
  d.say(env::credit_message{session, 0, 1});
  const auto job = next<env::job_message>(*d.host);
  caf::anon_send(*d.dispatch, drain{static_cast<std::uint8_t>(ending::pause)});
  REQUIRE(d.ears.wait_for(jobs - 1, 0));
  CHECK(d.ears.all_verdicts().empty());

  // Its attempt is lost; there is no other one in this life of the run.
  d.say(env::failed_message{session, job.lease, "the device is unhealthy", 0});
  REQUIRE(d.ears.wait_for(jobs, 1));
  const auto verdicts = d.ears.all_verdicts();
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].sample == static_cast<sample_id>(job.sample));
  CHECK_FALSE(verdicts[0].counts);
  CHECK_FALSE(verdicts[0].exhausted);
  auto withdrawn = d.ears.all_withdrawn();
  CHECK(withdrawn.back() == static_cast<sample_id>(job.sample));
  std::sort(withdrawn.begin(), withdrawn.end());
  CHECK(std::adjacent_find(withdrawn.begin(), withdrawn.end()) == withdrawn.end());
  CHECK(withdrawn.size() == static_cast<std::size_t>(jobs));
  d.self.end_actors();
}

TEST_CASE("a device that goes into quarantine and one that comes back are said, and counted") {
  const auto folder = base::temp_folder::make().value();
  std::vector<std::string> lines;
  {
    caught_stderr caught(folder.path() / "said");
    dispatching d;
    const auto session = d.join("node7");
    CHECK(d.comes_to(1));
    const env::quarantined_device out{0, "failures: no room in /tmp", 90'000};
    d.say(env::heartbeat_message{session, {out}});
    CHECK(d.comes_to(0));
    CHECK(contains(d.board->shortage(), "no room in /tmp"));
    d.say(env::heartbeat_message{session, {out}});
    d.say(env::heartbeat_message{session, {}});
    CHECK(d.comes_to(1));
    CHECK(d.board->shortage().empty());
    d.self.end_actors();
    lines = caught.lines();
  }
  std::string all;
  std::size_t out = 0, back = 0;
  for (const std::string& line : lines) {
    all += line + "\n";
    const bool named = contains(line, "device 0 (cpp-test) of host node7");
    out += named && contains(line, "takes no work: failures: no room in /tmp") ? 1U : 0U;
    back += named && contains(line, "takes work again, after 90.") ? 1U : 0U;
  }
  CAPTURE(all);
  CHECK(out == 1);
  CHECK(back == 1);
}

TEST_CASE("of a host with devices of several lanes a run uses its own") {
  dispatching d;
  d.say(env::hello_message{1, 1, "raw", 6, {"cuda"}, {{0, "cpp-test", 1}}});
  const auto refused = next<env::refused_message>(*d.host);
  CHECK(refused.text ==
        "this run measures lane cpp on cpp-test, this host offers cpp-test (lanes cuda)");
  d.say(env::hello_message{1,
                           1,
                           "raw",
                           7,
                           {"cpp", "cuda"},
                           {{0, "H100-SXM", 1, {"cuda"}}, {1, "cpp-test", 1, {"cpp"}}}});
  const auto session = next<env::welcome_message>(*d.host).session;
  REQUIRE(d.comes_to(1));
  const auto hosts = d.board->snapshot();
  REQUIRE(hosts[0]["devices"].size() == 1);
  CHECK(hosts[0]["devices"][0]["device"] == 1);
  // What becomes of the other is nothing to the run.
  d.say(env::heartbeat_message{session, {{0, "failures: of its own", 0}}});
  d.say(env::credit_message{session, 0, 1});
  d.say(env::credit_message{session, 1, 1});
  caf::anon_send(*d.dispatch, evaluate_sample{1, 1, d.tasks->tasks()[0].id, "int v;\n", 0, 0, 0});
  CHECK(next<env::job_message>(*d.host).device == 1);
  CHECK(d.board->shortage().empty());
  d.say(env::heartbeat_message{session, {{1, "failures: no room", 0}}});
  CHECK(d.comes_to(0));
  d.self.end_actors();
}

TEST_CASE("a host that names no lanes of its devices has all of its lanes on each of them") {
  dispatching d;
  // As hosts said it before devices had lanes.
  const auto old = env::decode(env::frames{
      "QRN1", "HELLO",
      R"({"build":"old","devices":[{"class":"cpp-test","id":3,"slots":1}],"lanes":["cuda","cpp"],"nonce":"7","proto_max":1,"proto_min":1})"});
  REQUIRE(old);
  d.say(*old);
  const auto session = next<env::welcome_message>(*d.host).session;
  REQUIRE(d.comes_to(1));
  d.say(env::credit_message{session, 3, 1});
  caf::anon_send(*d.dispatch, evaluate_sample{1, 1, d.tasks->tasks()[0].id, "int v;\n", 0, 0, 0});
  CHECK(next<env::job_message>(*d.host).device == 3);
  d.self.end_actors();
}

TEST_CASE("a host that joins again in quarantine's place counts when it has judged a candidate") {
  dispatching d;
  const auto before = d.join("node7");
  REQUIRE(d.comes_to(1));
  d.say(env::heartbeat_message{before, {{0, "failures: no room in /tmp", 0}}});
  REQUIRE(d.comes_to(0));
  d.say(env::bye_message{before, 0});
  const auto session = d.join("node7", 8);
  const std::string task = d.tasks->tasks()[0].id;
  // Of two candidates the first is lost once more, and tells nothing for the device.
  std::size_t verdicts = 0;
  for (const auto kind : {env::verdict_kind::infra_error, env::verdict_kind::compile_error}) {
    caf::anon_send(*d.dispatch, evaluate_sample{1, kind == env::verdict_kind::infra_error ? 1 : 2,
                                                task, "int v;\n", 0, 0, 0});
    d.say(env::credit_message{session, 0, static_cast<std::int64_t>(verdicts + 1)});
    const auto job = next<env::job_message>(*d.host);
    CHECK(d.board->working() == 0);
    CHECK(contains(d.board->shortage(), "has judged nothing since its host was in"));
    env::verdict told;
    told.kind = kind;
    told.detail = "said by a test";
    told.task = task;
    told.device_class = "cpp-test";
    told.source = base::to_hex(job.source_hash);
    told.protocol = job.protocol;
    d.say(env::verdict_message{session, job.lease, base::dump(env::to_json(told))});
    REQUIRE(d.ears.wait_for(0, ++verdicts));
  }
  CHECK(d.comes_to(1));
  CHECK(d.board->shortage().empty());
  d.self.end_actors();
}
