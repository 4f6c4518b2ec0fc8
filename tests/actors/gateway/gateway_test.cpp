// The gateway with real sockets: hosts that work, die, restart, lie, or speak another language.
#include <csignal>
#include <future>
#include <thread>

#include <arpa/inet.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "env/plugin/host_loop.hpp"
#include "support/test.hpp"
#include "tests/actors/gateway/run_fixture.hpp"

extern char** environ;

namespace {

using namespace quern;
using actors::gateway_options;
using actors::lease_outcome;
using actors::sample_id;
using actors::test::run_fixture;

/// A side that is silent for five of them is gone. Short where a host is to be missed; quick where
/// something is to happen at each of them; else long, since a busy machine may keep a thread from
/// its core for a while.
constexpr int beat_ms = 5000, quick_beat_ms = 500, short_beat_ms = 50;

struct folder_fixture {
  base::temp_folder folder = *base::temp_folder::make();
  [[nodiscard]] std::string endpoint() const {
    return "ipc://" + (folder.path() / "hosts").string();
  }
  [[nodiscard]] gateway_options options(int heartbeat_ms = beat_ms) const {
    gateway_options o;
    o.endpoints = {endpoint()};
    o.incarnation = 1;
    o.heartbeat_ms = heartbeat_ms;
    return o;
  }
};

env::host_options host_at(const std::string& endpoint, std::int64_t slots = 2) {
  env::host_options options;
  options.endpoint = endpoint;
  options.profile.build = "test";
  options.profile.lanes = {"cpp"};
  options.profile.devices = {{0, "cpp-test", slots}};
  options.profile.retry_ns = 100'000'000;
  options.patience_ns = 30'000'000'000;
  return options;
}

env::host_result judge(const env::host_job& job, const std::atomic<bool>&) {
  return {false, *job.task + ": " + job.job.source};
}

/// A host in a thread; stops at the end of the test if it has not ended by itself.
struct threaded_host {
  std::unique_ptr<env::host_loop> loop;
  base::status result;
  std::thread thread;

  explicit threaded_host(const env::host_options& options, env::evaluate_function evaluate = judge,
                         env::device_state_function state = {})
      : loop(std::move(*env::host_loop::make(options, std::move(evaluate), {}, std::move(state)))),
        thread([this] { result = loop->run(); }) {}
  void join() {
    if (thread.joinable()) thread.join();
  }
  ~threaded_host() {
    loop->stop();
    join();
  }
};

/// A peer that sends whatever it likes.
struct raw_host {
  env::zmq_context context;
  env::zmq_socket socket = *env::zmq_socket::open(context, env::socket_kind::dealer);

  explicit raw_host(const std::string& endpoint) { REQUIRE(socket.connect(endpoint)); }
  void send(const env::message& what) { send_frames(*env::encode(what)); }
  void send_frames(const env::frames& parts) {
    REQUIRE(socket.send({}, parts) == env::send_outcome::sent);
  }
  env::hello_message hello(std::uint64_t nonce) {
    return {1, 1, "raw", nonce, {"cpp"}, {{0, "cpp-test", 1}}};
  }
  /// The next message of type T; others are passed over.
  template <class T>
  T next() {
    while (true) {
      auto in = socket.receive();
      REQUIRE(in);
      if (!*in) {
        REQUIRE(env::wait_for(socket, -1, 20'000).socket);
        continue;
      }
      const auto what = env::decode((*in)->parts);
      REQUIRE(what);
      if (const auto* wanted = std::get_if<T>(&*what)) return *wanted;
    }
  }
};

pid_t start_host(const std::string& endpoint, const std::string& pause_ms) {
  const auto program = (test::program_dir() / "gateway_test_host").string();
  std::vector<std::string> words = {program, endpoint, pause_ms};
  std::vector<char*> argv;
  for (auto& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  REQUIRE(posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv.data(), environ) == 0);
  return pid;
}

TEST_CASE("every job gets one verdict, and the task is asked for once") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options()));
  threaded_host host(host_at(where.endpoint()));
  constexpr int count = 300;
  for (sample_id s = 1; s <= count; ++s)
    run.submit(s);
  REQUIRE(run.wait([&] { return run.accepted.size() == count; }));
  for (const auto& [sample, times] : run.accepted)
    CHECK(times == 1);
  CHECK(run.verdicts.at(7) == "a task: source 7");
  CHECK(run.tasks_asked >= 1);
  CHECK(run.tasks_asked <= 3);
  host.loop->drain();
  host.join();
  CHECK(host.result);
  REQUIRE(run.wait([&] { return run.lost.size() == 1; }));
  CHECK(run.draining.size() == 1);
  CHECK(host.loop->statistics().verdicts == count);
}

TEST_CASE("kill -9 of a host: its jobs are done by another") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options(short_beat_ms)));
  const pid_t victim = start_host(where.endpoint(), "600000");
  REQUIRE(run.wait([&] { return run.joined.size() == 1; }));
  for (sample_id s = 1; s <= 4; ++s)
    run.submit(s);
  REQUIRE(run.wait([&] { return run.holder.size() == 2; }));
  const auto first = run.joined.front();
  kill(victim, SIGKILL);
  int status = 0;
  waitpid(victim, &status, 0);
  REQUIRE(run.wait([&] { return run.lost.count(first) == 1; }));
  CHECK(run.lost.at(first) == "silent for too long");
  const pid_t second = start_host(where.endpoint(), "1");
  REQUIRE(run.wait([&] { return run.accepted.size() == 4; }));
  CHECK(run.verdicts.at(1) == "verdict on source 1");
  run.door().drain_hosts();
  waitpid(second, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a stopped host (SIGSTOP) loses its session; what it says afterwards does not count") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options(short_beat_ms)));
  const pid_t host = start_host(where.endpoint(), "1000");
  REQUIRE(run.wait([&] { return run.joined.size() == 1; }));
  run.submit(1);
  REQUIRE(run.wait([&] { return run.holder.size() == 1; }));
  kill(host, SIGSTOP);
  const auto first = run.joined.front();
  REQUIRE(run.wait([&] { return run.lost.count(first) == 1; }));
  kill(host, SIGCONT);
  // It greets again, gets a session of its own, and does the job that was queued again.
  REQUIRE(run.wait([&] { return run.joined.size() >= 2; }));
  REQUIRE(run.wait([&] { return run.accepted.size() == 1; }));
  CHECK(run.accepted.at(1) == 1);
  CHECK(run.holder.at(1) != first);
  kill(host, SIGKILL);
  int status = 0;
  waitpid(host, &status, 0);
}

TEST_CASE("frames of a session that is over, or of another connection, are dropped and counted") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options()));
  raw_host host(where.endpoint());
  host.send(host.hello(11));
  const auto old = host.next<env::welcome_message>();
  CHECK(old.nonce == 11);
  host.send(host.hello(12));
  const auto fresh = host.next<env::welcome_message>();
  CHECK(fresh.session != old.session);
  REQUIRE(run.wait([&] { return run.lost.count(old.session) == 1; }));
  host.send(env::credit_message{old.session, 0, 1});
  CHECK(host.next<env::error_message>().code == "unknown_session");
  // Somebody else says the number of a living session.
  raw_host thief(where.endpoint());
  thief.send(env::heartbeat_message{fresh.session});
  CHECK(thief.next<env::error_message>().code == "unknown_session");
  CHECK(run.door().statistics().stale_frames == 2);
  // The same nonce at a new connection is a reconnection: the session goes on.
  raw_host again(where.endpoint());
  again.send(again.hello(12));
  CHECK(again.next<env::welcome_message>().session == fresh.session);
  CHECK(run.joined.size() == 2);
}

TEST_CASE(
    "doubled, late and reordered frames: a verdict counts once and is acknowledged after commit") {
  folder_fixture where;
  run_fixture run;
  run.commit_at_once = false;
  REQUIRE(run.open(where.options()));
  raw_host host(where.endpoint());
  host.send(host.hello(1));
  const auto in = host.next<env::welcome_message>();
  host.send(env::credit_message{in.session, 0, 1});
  host.send(env::credit_message{in.session, 0, 1});
  run.submit(1);
  run.submit(2);
  const auto job = host.next<env::job_message>();
  CHECK(job.sample == 1);
  CHECK(job.source == "source 1");
  const env::verdict_message verdict{in.session, job.lease, "first"};
  host.send(verdict);
  host.send(verdict);
  host.send(env::failed_message{in.session, job.lease, "changed my mind"});
  REQUIRE(run.wait([&] { return run.outcomes[lease_outcome::pending] == 2; }));
  CHECK(run.accepted.at(1) == 1);
  CHECK(run.verdicts.at(1) == "first");
  run.commit(in.session, job.lease);
  const auto ack = host.next<env::verdict_ack_message>();
  CHECK(ack.lease == job.lease);
  CHECK(ack.accepted == 1);
  host.send(verdict);
  CHECK(host.next<env::verdict_ack_message>().accepted == 1);
  host.send(env::verdict_message{in.session, job.lease + 1000, "about nothing"});
  CHECK(host.next<env::verdict_ack_message>().accepted == 0);
  // The doubled CREDIT bought one job, not two.
  CHECK(run.holder.size() == 1);
  host.send(env::credit_message{in.session, 0, 2});
  CHECK(host.next<env::job_message>().sample == 2);
}

TEST_CASE("a CANCEL is repeated until the host answers for the lease") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options(quick_beat_ms)));
  raw_host host(where.endpoint());
  host.send(host.hello(1));
  const auto in = host.next<env::welcome_message>();
  run.door().cancel(in.session, 99, 0);
  for (int i = 0; i < 3; ++i) {
    CHECK(host.next<env::cancel_message>().lease == 99);
    host.send(env::heartbeat_message{in.session});
  }
  host.send(env::failed_message{in.session, 99, "cancelled"});
  CHECK(host.next<env::verdict_ack_message>().accepted == 0);
  while (host.socket.receive().value_or(std::nullopt)) {
  }
  // Heartbeats go on, and the CANCEL that came between two of them does not.
  int beats = 0;
  while (beats < 3) {
    const auto in_socket = host.socket.receive();
    REQUIRE(in_socket);
    if (!*in_socket) {
      REQUIRE(env::wait_for(host.socket, -1, 20'000).socket);
      continue;
    }
    const auto what = env::decode((*in_socket)->parts);
    REQUIRE(what);
    CHECK_FALSE(std::holds_alternative<env::cancel_message>(*what));
    if (!std::holds_alternative<env::heartbeat_message>(*what)) continue;
    ++beats;
    host.send(env::heartbeat_message{in.session});
  }
}

TEST_CASE("who speaks another language is told so") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options()));
  raw_host host(where.endpoint());
  auto hello = host.hello(1);
  // Beyond what the number of a process can be: never one that it was cut to.
  hello.start = (std::int64_t{1} << 32) + 1;
  host.send(hello);
  const auto number = host.next<env::refused_message>();
  CHECK(number.code == "number");
  CHECK(number.text == "start is 4294967297, 0 to 2147483647 is possible");
  hello.start = 0;
  hello.pid = -1;
  host.send(hello);
  CHECK(host.next<env::refused_message>().code == "number");
  hello.pid = 0;
  hello.proto_min = 7;
  hello.proto_max = 9;
  host.send(hello);
  auto refused = host.next<env::refused_message>();
  CHECK(refused.code == "protocol");
  CHECK(refused.text.find("7 to 9") != std::string::npos);
  host.send_frames({"QRN9", "HELLO", "{}"});
  CHECK(host.next<env::refused_message>().code == "protocol");
  host.send_frames({"QRN1", "DANCE", "{}"});
  CHECK(host.next<env::error_message>().code == "unknown_type");
  host.send_frames({"QRN1", "HELLO", "{"});
  CHECK(host.next<env::error_message>().code == "bad_frame");
  host.send(env::welcome_message{});
  CHECK(host.next<env::error_message>().code == "unexpected");
  const auto counts = run.door().statistics();
  CHECK(counts.refused_hellos == 3);
  CHECK(counts.unknown_types == 1);
  CHECK(run.joined.empty());
}

TEST_CASE("a host goes when the run says goodbye") {
  folder_fixture where;
  threaded_host host(host_at(where.endpoint()));
  {
    run_fixture run(1);
    REQUIRE(run.open(where.options()));
    run.submit(1);
    REQUIRE(run.wait([&] { return run.accepted.size() == 1; }));
  }
  host.join();  // BYE: the run is over
  CHECK(host.result);
}

/// What a host that cannot reach its run ends with. On a busy machine it may know the cause only
/// with more patience: it gets that until it has said `cause`.
std::string why_not(env::host_options options, std::string_view cause) {
  std::string why;
  for (options.patience_ns = 700'000'000; options.patience_ns < 60'000'000'000;
       options.patience_ns *= 4) {
    threaded_host host(options);
    host.join();
    REQUIRE_FALSE(host.result);
    CHECK(host.result.error().code == base::errc::unavailable);
    why = host.result.error().message;
    if (test::contains(why, cause)) break;
  }
  return why;
}

TEST_CASE("CURVE: listed hosts work, others never get in") {
  run_fixture run;
  const auto gateway_keys = *env::make_curve_keys();
  const auto friendly = *env::make_curve_keys();
  const auto unadmitted = *env::make_curve_keys();
  gateway_options options;
  options.endpoints = {"tcp://127.0.0.1:*"};
  options.incarnation = 1;
  options.heartbeat_ms = beat_ms;
  const auto open = run.open(options);
  REQUIRE_FALSE(open);
  CHECK(open.error().message.find("CURVE") != std::string::npos);

  options.keys = actors::gateway_keys{gateway_keys, {friendly.public_key}};
  REQUIRE(run.open(options));
  const auto endpoint = run.door().endpoints().at(0);
  auto bad = host_at(endpoint);
  bad.keys = env::host_keys{unadmitted, gateway_keys.public_key};
  const std::string why = why_not(bad, unadmitted.public_key);
  CHECK(test::contains(why, unadmitted.public_key));
  CHECK(test::contains(why, "env.hosts"));
  CHECK(run.joined.empty());
  CHECK(run.door().statistics().refused_keys > 0);
  auto good = host_at(endpoint);
  good.keys = env::host_keys{friendly, gateway_keys.public_key};
  threaded_host host(good);
  run.submit(1);
  REQUIRE(run.wait([&] { return run.accepted.size() == 1; }));
}

TEST_CASE("a wrong port, a wrong key of the run and a silent listener each name their causes") {
  run_fixture run;
  const auto gateway_keys = *env::make_curve_keys();
  const auto friendly = *env::make_curve_keys();
  gateway_options options;
  options.endpoints = {"tcp://127.0.0.1:*"};
  options.keys = actors::gateway_keys{gateway_keys, {friendly.public_key}};
  REQUIRE(run.open(options));
  const auto endpoint = run.door().endpoints().at(0);
  const auto other = *env::make_curve_keys();
  const auto why = [&](const std::string& of, const env::host_keys& keys,
                       const std::string& cause) {
    auto host = host_at(of);
    host.keys = keys;
    return why_not(host, cause);
  };
  const std::string not_the_key = "--gateway-key is not the public key";
  const std::string wrong_key = why(endpoint, {friendly, other.public_key}, not_the_key);
  CHECK(test::contains(wrong_key, not_the_key));
  CHECK_FALSE(test::contains(wrong_key, "env.hosts"));
  run.close();
  const std::string nobody = "nobody listens at " + endpoint;
  CHECK(test::contains(why(endpoint, {friendly, gateway_keys.public_key}, nobody), nobody));
  // Connections are accepted by Linux, and that is all.
  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  REQUIRE(::bind(silent, reinterpret_cast<const sockaddr*>(&where), size) == 0);
  REQUIRE(::listen(silent, 8) == 0);
  REQUIRE(::getsockname(silent, reinterpret_cast<sockaddr*>(&where), &size) == 0);
  const std::string says_nothing = "accepts connections and says nothing";
  CHECK(test::contains(why(fmt::format("tcp://127.0.0.1:{}", ntohs(where.sin_port)),
                           {friendly, gateway_keys.public_key}, says_nothing),
                       says_nothing));
  ::close(silent);
}

TEST_CASE("a host that is told to stop says goodbye before its evaluation is over") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options()));
  std::promise<void> over;
  const auto until = over.get_future().share();
  threaded_host leaving(host_at(where.endpoint()),
                        [&](const env::host_job&, const std::atomic<bool>&) -> env::host_result {
                          until.wait();
                          return {false, "too late"};
                        });
  run.submit(1);
  REQUIRE(run.wait([&] { return run.holder.contains(1); }));
  const auto first = run.holder[1];
  leaving.loop->stop();
  REQUIRE(run.wait([&] { return run.lost.contains(first); }));
  CHECK(run.lost[first] == "the host said goodbye");
  // Begun, and no failure of the sample.
  REQUIRE(run.given_back.size() == 1);
  CHECK(run.given_back[0].outcome == lease_outcome::returned);
  CHECK(run.given_back[0].attempt == 1);
  // Its job is another host's, and the first one is still at it.
  threaded_host staying(host_at(where.endpoint()));
  REQUIRE(run.wait([&] { return run.accepted.size() == 1; }));
  CHECK(run.verdicts[1] != "too late");
  over.set_value();
  leaving.join();
  CHECK(leaving.result);
}

TEST_CASE("a host that is told to stop ends what its evaluation waits for, or goes without it") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options()));
  for (const bool heeds : {true, false}) {
    CAPTURE(heeds);
    std::promise<void> over, begun;
    const auto until = over.get_future().share();
    std::atomic<int> hastened = 0, left = 0;
    auto options = host_at(where.endpoint());
    options.ending.hasten = [&] {
      if (++hastened == 1 && heeds) over.set_value();
    };
    // Long for the one that heeds: it ends at once, however busy the machine is.
    options.ending.longest_ns = heeds ? 60'000'000'000 : 200'000'000;
    options.ending.give_up = [&] {
      ++left;
      over.set_value();  // a program would end itself here
    };
    threaded_host leaving(options,
                          [&](const env::host_job&, const std::atomic<bool>&) -> env::host_result {
                            begun.set_value();
                            until.wait();
                            return {false, "too late"};
                          });
    const actors::sample_id sample = heeds ? 1 : 2;
    // The hosts of the round before are gone.
    const std::size_t before = heeds ? 0 : 2;
    REQUIRE(run.wait([&] { return run.joined.size() == before + 1 && run.lost.size() == before; }));
    run.submit(sample);
    begun.get_future().wait();
    leaving.loop->stop();
    leaving.join();
    CHECK(leaving.result);
    CHECK(hastened > 0);
    CHECK(left == (heeds ? 0 : 1));
    CHECK(run.verdicts[sample].empty());
    threaded_host staying(host_at(where.endpoint()));
    REQUIRE(run.wait([&] { return run.accepted.contains(sample); }));
  }
}

TEST_CASE("a host that is told to go ends with the reason") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options()));
  threaded_host host(host_at(where.endpoint()));
  REQUIRE(run.wait([&] { return run.joined.size() == 1; }));
  run.door().refuse(run.joined[0], "device_class", "this run measures on cpp-avx512",
                    "use another host");
  host.join();
  REQUIRE_FALSE(host.result);
  CHECK(host.result.error().message.find("cpp-avx512") != std::string::npos);
  REQUIRE(run.wait([&] { return run.lost.size() == 1; }));
}

TEST_CASE("what an evaluation throws, and a verdict beyond the frame limit, are failures") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options()));
  threaded_host host(host_at(where.endpoint()),
                     [](const env::host_job& job, const std::atomic<bool>&) -> env::host_result {
                       if (job.job.sample == 1) throw std::runtime_error("the device fell off");
                       return {false, std::string(env::max_frame_bytes + 1, 'x')};
                     });
  run.submit(1);
  REQUIRE(run.wait([&] { return run.outcomes[lease_outcome::exhausted] == 1; }));
  run.submit(2);
  REQUIRE(run.wait([&] { return run.outcomes[lease_outcome::exhausted] == 2; }));
  CHECK(run.accepted.empty());
  CHECK(run.outcomes[lease_outcome::retry] == 6);
}

TEST_CASE("a device that fails gives its jobs to the other one, and works again when it can") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options(quick_beat_ms)));
  auto options = host_at(where.endpoint(), 8);
  options.profile.devices.push_back({1, "cpp-test", 8});
  std::atomic<bool> broken = false, healed = false;
  std::atomic<int> on_first = 0;
  const auto evaluate = [&](const env::host_job& job,
                            const std::atomic<bool>&) -> env::host_result {
    if (job.job.device == 0 && ++on_first == 3) broken = true;
    return {false, "verdict of device " + std::to_string(job.job.device)};
  };
  const auto state = [&](std::int64_t device) -> std::optional<std::string> {
    if (device != 0 || !broken || healed) return std::nullopt;
    return "memory: 9 GiB are missing";
  };
  threaded_host host(options, evaluate, state);
  constexpr int count = 60;
  for (sample_id s = 1; s <= count; ++s)
    run.submit(s);
  REQUIRE(run.wait([&] { return run.accepted.size() == count && !run.quarantines.empty(); }));
  // The gateway may have granted jobs before it knew; each was done once, none of them failed.
  CHECK(on_first == 3);
  for (const auto& [sample, times] : run.accepted)
    CHECK(times == 1);
  CHECK(run.outcomes[lease_outcome::retry] == 0);
  CHECK(run.outcomes[lease_outcome::exhausted] == 0);
  CHECK(run.quarantines.front().at(0).device == 0);
  CHECK(run.quarantines.front().at(0).reason == "memory: 9 GiB are missing");
  CHECK(run.outcomes[lease_outcome::returned] == host.loop->statistics().returned);

  healed = true;
  REQUIRE(run.wait([&] { return run.quarantines.back().empty(); }));
  for (sample_id s = count + 1; s <= 2 * count; ++s)
    run.submit(s);
  REQUIRE(run.wait([&] { return run.accepted.size() == 2 * count; }));
  CHECK(on_first > 3);
  host.loop->drain();
  host.join();
  CHECK(host.result);
}

TEST_CASE("where no other device is, jobs wait until the device works again; none is lost") {
  folder_fixture where;
  run_fixture run;
  REQUIRE(run.open(where.options(quick_beat_ms)));
  std::atomic<int> looks = 0, done = 0;
  const auto evaluate = [&](const env::host_job&, const std::atomic<bool>&) -> env::host_result {
    ++done;
    return {false, "fine"};
  };
  // Out after the first job, for two looks.
  const auto state = [&](std::int64_t) -> std::optional<std::string> {
    return done >= 1 && ++looks < 3 ? std::optional<std::string>("lost") : std::nullopt;
  };
  threaded_host host(host_at(where.endpoint(), 4), evaluate, state);
  for (sample_id s = 1; s <= 10; ++s)
    run.submit(s);
  REQUIRE(run.wait([&] { return run.accepted.size() == 10; }));
  CHECK(run.outcomes[lease_outcome::returned] > 0);
  CHECK(run.outcomes[lease_outcome::retry] == 0);
  CHECK(run.outcomes[lease_outcome::exhausted] == 0);
  CHECK(done == 10);
}

}  // namespace
