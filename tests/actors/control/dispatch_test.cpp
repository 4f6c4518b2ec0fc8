// The dispatch actor between an evaluator host that speaks the protocol by hand and a replay actor
// that only listens.
#include <condition_variable>
#include <mutex>
#include <optional>

#include "actors/dispatch_actor.hpp"
#include "actors/node.hpp"
#include "base/file.hpp"
#include "env/plugin/zmq_socket.hpp"
#include "env/verdict/verdict.hpp"
#include "support/caught_stderr.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

/// What the replay actor was told. Thread-safe.
class told {
 public:
  void withdrawn(const jobs_withdrawn& news) {
    const std::lock_guard lock(guard_);
    for (const sample_id sample : news.samples)
      withdrawn_.push_back(sample);
    changed_.notify_all();
  }
  void verdict(const sample_verdict& news) {
    const std::lock_guard lock(guard_);
    verdicts_.push_back(news);
    changed_.notify_all();
  }
  /// Once there are so many of both; at most a minute.
  bool wait_for(std::size_t withdrawn, std::size_t verdicts) {
    std::unique_lock lock(guard_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] {
      return withdrawn_.size() >= withdrawn && verdicts_.size() >= verdicts;
    });
  }
  std::vector<sample_id> all_withdrawn() {
    const std::lock_guard lock(guard_);
    return withdrawn_;
  }
  std::vector<sample_verdict> all_verdicts() {
    const std::lock_guard lock(guard_);
    return verdicts_;
  }

 private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<sample_id> withdrawn_;
  std::vector<sample_verdict> verdicts_;
};

replay_ref::behavior_type listener(replay_ref::pointer, told* ears) {
  const auto nobody = [] { return caf::make_error(caf::sec::runtime_error, "nobody joins here"); };
  return {
      [=](const hello&, const generator_ref&) -> caf::result<welcome> { return nobody(); },
      [=](const hello&, const learner_ref&) -> caf::result<welcome> { return nobody(); },
      [](const generation_credit&) {},
      [](const weights_installed&) {},
      [](const generated_sample&) {},
      [=](const sample_verdict& news) { ears->verdict(news); },
      [=](const jobs_withdrawn& news) { ears->withdrawn(news); },
      [](const learner_ready&) {},
      [](const step_done&) {},
      [](const weights_ready&) {},
      [](const checkpoint_saved&) {},
      [](const process_check&) {},
      [](const drain&) {},
      [](const fatal_problem&) {},
      [](const tick&) {},
  };
}

/// The next message of type T that the host gets; others are passed over.
template <class T>
T next(env::zmq_socket& socket) {
  while (true) {
    REQUIRE(env::wait_for(socket, -1, 60'000).socket);
    const auto in = socket.receive().value();
    if (!in) continue;
    const auto what = env::decode(in->parts).value();
    if (const auto* wanted = std::get_if<T>(&what)) return *wanted;
  }
}

/// A dispatch actor, and a host that says only what a test has it say.
struct dispatching {
  base::temp_folder folder = base::temp_folder::make().value();
  run_config config;
  std::optional<task_book> tasks;
  std::shared_ptr<device_board> board = std::make_shared<device_board>();
  told ears;
  node self;
  std::optional<dispatch_ref> dispatch;
  env::zmq_context context;
  std::optional<env::zmq_socket> host;

  dispatching() {
    config.tasks.count = 1;
    config.tasks.held_out_count = 0;
    tasks.emplace(task_book::make(config).value());
    const auto sink = std::make_shared<dispatch_sink>();
    sink->replay = self.system().spawn(listener, &ears);
    self.owns(sink->replay);
    dispatch_setup setup{&config, &*tasks, "cpp-test", 1, {}};
    setup.gateway.endpoints = {"ipc://" + (folder.path() / "hosts").string()};
    setup.gateway.epoch = 1;
    setup.gateway.heartbeat_ms = 60'000;  // the host says nothing by itself
    setup.board = board;
    auto made = spawn_dispatch(self.system(), setup, sink);
    REQUIRE(made);
    self.owns(*made);
    dispatch.emplace(std::move(*made));
    host.emplace(env::zmq_socket::open(context, env::socket_kind::dealer).value());
    REQUIRE(host->connect(sink->endpoints.at(0)));
  }
  void say(const env::message& what) {
    REQUIRE(host->send({}, env::encode(what).value()) == env::send_outcome::sent);
  }
  /// Whether so many devices take work; waits for it.
  bool comes_to(std::size_t working) const {
    for (int i = 0; i < 3000 && board->working() != working; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return board->working() == working;
  }
  /// Lets the host in; its session.
  std::uint64_t join(const std::string& name = "", std::uint64_t nonce = 7) {
    env::hello_message hello{1, 1, "raw", nonce, {"cpp"}, {{0, "cpp-test", 1}}};
    hello.name = name;
    say(hello);
    return next<env::welcome_message>(*host).session;
  }
};

}  // namespace

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
    test::caught_stderr caught(folder.path() / "said");
    dispatching d;
    const auto session = d.join("node7");
    CHECK(d.comes_to(1));
    const env::quarantined_device out{0, "failures: no room in /tmp", 90'000};
    d.say(env::heartbeat_message{session, {out}});
    CHECK(d.comes_to(0));
    CHECK(test::contains(d.board->shortage(), "no room in /tmp"));
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
    const bool named = test::contains(line, "device 0 (cpp-test) of host node7");
    out += named && test::contains(line, "takes no work: failures: no room in /tmp") ? 1U : 0U;
    back += named && test::contains(line, "takes work again, after 90.") ? 1U : 0U;
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
    CHECK(test::contains(d.board->shortage(), "has judged nothing since its host was in"));
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
