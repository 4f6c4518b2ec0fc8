// A host's side of the protocol, message by message.
#include "env/plugin/host_session.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using base::operator""_ms;
using base::operator""_s;

env::host_profile profile(std::int64_t slots = 1) {
  env::host_profile p;
  p.build = "test";
  p.lanes = {"cpp"};
  p.devices = {{0, "cpp-avx2", slots}};
  p.retry_ns = 500_ms;
  return p;
}

template <class T>
std::vector<T> all(const env::host_actions& actions) {
  std::vector<T> found;
  for (const auto& m : actions.send) {
    if (const auto* one = std::get_if<T>(&m)) found.push_back(*one);
  }
  return found;
}

struct joined_host {
  env::host_session session;
  base::nanoseconds_t now = 0;

  explicit joined_host(std::int64_t slots = 1) : session(profile(slots), 77) {
    CHECK(all<env::hello_message>(session.on_time(0)).size() == 1);
    const auto in = session.on_message(env::welcome_message{5, 77, 1, 1000, 1000}, 0);
    const auto credit = all<env::credit_message>(in);
    REQUIRE(credit.size() == 1);
    CHECK(credit[0].n == slots);
    (void)session.on_message(env::task_message{{1, 1}, "a task"}, 0);
  }
  env::job_message job(std::uint64_t lease) const {
    env::job_message j;
    j.session = 5;
    j.lease = lease;
    j.task_hash = {1, 1};
    j.deadline_ms = 1000;
    return j;
  }
};

TEST_CASE("a job is started once, its verdict repeated until acknowledged") {
  joined_host host;
  CHECK(host.session.on_message(host.job(9), 0).start.size() == 1);
  CHECK(host.session.on_message(host.job(9), 0).start.empty());
  auto out = host.session.finished(9, {false, "{}"}, 10_ms);
  CHECK(all<env::verdict_message>(out).size() == 1);
  CHECK(all<env::credit_message>(out).at(0).n == 2);
  CHECK(host.session.on_message(host.job(9), 20_ms).start.empty());
  CHECK(host.session.finished(9, {false, "{}"}, 30_ms).send.empty());
  CHECK(all<env::verdict_message>(host.session.on_time(400_ms)).empty());
  CHECK(all<env::verdict_message>(host.session.on_time(600_ms)).size() == 1);
  (void)host.session.on_message(env::verdict_ack_message{9, 1}, 700_ms);
  CHECK(all<env::verdict_message>(host.session.on_time(1500_ms)).empty());
  CHECK(host.session.unacknowledged() == 0);
}

TEST_CASE("a task that is not known is asked for before the job starts") {
  joined_host host;
  auto job = host.job(9);
  job.task_hash = {2, 2};
  auto out = host.session.on_message(job, 0);
  CHECK(out.start.empty());
  CHECK(all<env::need_message>(out).at(0).task_hash == base::hash128{2, 2});
  CHECK(all<env::need_message>(host.session.on_time(600_ms)).size() == 1);
  out = host.session.on_message(env::task_message{{2, 2}, "two"}, 700_ms);
  REQUIRE(out.start.size() == 1);
  CHECK(*out.start[0].task == "two");
  CHECK(out.start[0].deadline == 1_s);
}

TEST_CASE("CANCEL ends a lease in whatever state it is, and counts it as finished once") {
  joined_host host;
  // It never arrived: the slot comes back, and the frame that arrives too late starts nothing.
  auto out = host.session.on_message(env::cancel_message{5, 9, 0}, 0);
  CHECK(all<env::credit_message>(out).at(0).n == 2);
  CHECK(all<env::failed_message>(out).size() == 1);
  CHECK(host.session.on_message(host.job(9), 0).start.empty());
  // Repeated: answered, not counted again.
  out = host.session.on_message(env::cancel_message{5, 9, 0}, 0);
  CHECK(all<env::credit_message>(out).empty());
  CHECK(all<env::failed_message>(out).size() == 1);
  // It runs: its result is ignored.
  CHECK(host.session.on_message(host.job(10), 0).start.size() == 1);
  out = host.session.on_message(env::cancel_message{5, 10, 0}, 0);
  CHECK(out.cancel == std::vector<std::uint64_t>{10});
  CHECK(all<env::credit_message>(out).at(0).n == 3);
  CHECK(host.session.finished(10, {false, "{}"}, 0).send.empty());
  // It is done: its verdict is not repeated any more.
  CHECK(host.session.on_message(host.job(11), 0).start.size() == 1);
  (void)host.session.finished(11, {false, "{}"}, 0);
  out = host.session.on_message(env::cancel_message{5, 11, 0}, 0);
  CHECK(all<env::credit_message>(out).empty());
  CHECK(host.session.unacknowledged() == 0);
  // Of another session: nothing.
  CHECK(host.session.on_message(env::cancel_message{4, 12, 0}, 0).send.empty());
}

TEST_CASE("another session voids everything and is entered with a fresh nonce") {
  joined_host host;
  (void)host.session.on_message(host.job(9), 0);
  auto out = host.session.on_message(env::welcome_message{6, 77, 1, 1000, 1000}, 0);
  CHECK(out.cancel == std::vector<std::uint64_t>{9});
  const auto hello = all<env::hello_message>(out);
  REQUIRE(hello.size() == 1);
  CHECK(hello[0].nonce != 77);
  CHECK(host.session.session() == 0);
  // Late answers to the old nonce change nothing.
  out = host.session.on_message(env::welcome_message{5, 77, 1, 1000, 1000}, 0);
  CHECK(out.send.empty());
  out = host.session.on_message(env::welcome_message{7, hello[0].nonce, 1, 1000, 1000}, 0);
  CHECK(all<env::credit_message>(out).at(0).session == 7);
  CHECK(all<env::credit_message>(out).at(0).n == 1);
}

TEST_CASE("a silent gateway is greeted anew, and the same session goes on") {
  joined_host host(2);
  (void)host.session.on_message(host.job(9), 0);
  (void)host.session.on_message(host.job(10), 0);
  (void)host.session.finished(10, {false, "{}"}, 0);
  CHECK_FALSE(host.session.on_time(4900_ms).reconnect);
  auto out = host.session.on_time(5000_ms);
  CHECK(out.reconnect);
  CHECK(all<env::hello_message>(out).at(0).nonce == 77);
  out = host.session.on_message(env::welcome_message{5, 77, 1, 1000, 1000}, 5100_ms);
  CHECK(all<env::verdict_message>(out).at(0).lease == 10);
  CHECK(all<env::credit_message>(out).at(0).n == 3);
  CHECK(host.session.held() == 1);
}

TEST_CASE("an unknown session makes a host greet, once") {
  joined_host host;
  auto out = host.session.on_message(env::error_message{"unknown_session", ""}, 0);
  CHECK(all<env::hello_message>(out).size() == 1);
  out = host.session.on_message(env::error_message{"unknown_session", ""}, 0);
  CHECK(out.send.empty());
}

TEST_CASE("draining: no more jobs, goodbye after the last acknowledgement") {
  joined_host host(2);
  (void)host.session.on_message(host.job(9), 0);
  auto out = host.session.drain(0);
  CHECK(all<env::bye_message>(out).at(0).drain == 1);
  CHECK_FALSE(out.done);
  out = host.session.finished(9, {true, "broken"}, 0);
  CHECK(all<env::failed_message>(out).size() == 1);
  CHECK(all<env::credit_message>(out).empty());
  CHECK_FALSE(out.done);
  out = host.session.on_message(env::verdict_ack_message{9, 0}, 0);
  CHECK(out.done);
  CHECK(all<env::bye_message>(out).at(0).drain == 0);
}

TEST_CASE("no credit while verdicts pile up unacknowledged") {
  auto p = profile(4);
  p.most_unacknowledged = 2;
  env::host_session session(p, 1);
  (void)session.on_message(env::welcome_message{5, 1, 1, 1000, 1000}, 0);
  (void)session.on_message(env::task_message{{1, 1}, "a task"}, 0);
  env::job_message job;
  job.session = 5;
  job.task_hash = {1, 1};
  for (job.lease = 1; job.lease <= 3; ++job.lease)
    (void)session.on_message(job, 0);
  CHECK(all<env::credit_message>(session.finished(1, {false, "{}"}, 0)).size() == 1);
  CHECK(all<env::credit_message>(session.finished(2, {false, "{}"}, 0)).empty());
  CHECK(all<env::credit_message>(session.finished(3, {false, "{}"}, 0)).empty());
  (void)session.on_message(env::verdict_ack_message{1, 1}, 0);
  const auto out = session.on_message(env::verdict_ack_message{2, 1}, 0);
  CHECK(all<env::credit_message>(out).at(0).n == 7);
}

TEST_CASE("refusal and dismissal end the host") {
  joined_host host;
  auto out = host.session.on_message(env::refused_message{"protocol", "old", "update"}, 0);
  REQUIRE(out.end);
  CHECK(out.end->code == base::errc::version);
  CHECK(out.end->message.find("update") != std::string::npos);
  joined_host other;
  (void)other.session.on_message(other.job(9), 0);
  out = other.session.on_message(env::bye_message{5, 0}, 0);
  CHECK(out.done);
  CHECK(out.cancel == std::vector<std::uint64_t>{9});
}

TEST_CASE("a device that takes no work says so at once and with each beat, and asks for nothing") {
  joined_host host(2);
  (void)host.session.on_message(host.job(8), 0);
  (void)host.session.on_message(host.job(9), 0);
  auto out = host.session.device_state(0, "memory: 9 GiB are missing", 10_ms);
  auto beats = all<env::heartbeat_message>(out);
  REQUIRE(beats.size() == 1);
  REQUIRE(beats[0].quarantined.size() == 1);
  CHECK(beats[0].quarantined[0] == env::quarantined_device{0, "memory: 9 GiB are missing", 0});
  CHECK(all<env::credit_message>(out).empty());
  // The same reason again is no news.
  CHECK(host.session.device_state(0, "memory: 9 GiB are missing", 11_ms).send.empty());

  out = host.session.finished(8, {false, "{}"}, 20_ms);
  CHECK(all<env::verdict_message>(out).size() == 1);
  CHECK(all<env::credit_message>(out).empty());
  out = host.session.finished(9, {true, "quarantine", true}, 21_ms);
  REQUIRE(all<env::failed_message>(out).size() == 1);
  CHECK(all<env::failed_message>(out)[0].returned == 1);
  CHECK(all<env::credit_message>(out).empty());

  out = host.session.on_time(1010_ms);
  beats = all<env::heartbeat_message>(out);
  REQUIRE(beats.size() == 1);
  CHECK(beats[0].quarantined.at(0).for_ms == 1000);
  CHECK(all<env::credit_message>(out).empty());

  // What it did not ask for meanwhile it asks for now.
  out = host.session.device_state(0, std::nullopt, 1020_ms);
  beats = all<env::heartbeat_message>(out);
  REQUIRE(beats.size() == 1);
  CHECK(beats[0].quarantined.empty());
  CHECK(all<env::credit_message>(out).at(0).n == 4);
  CHECK(host.session.device_state(0, std::nullopt, 1030_ms).send.empty());
}

TEST_CASE("a device stays out from session to session, and the other one goes on") {
  auto two = profile(1);
  two.devices.push_back({1, "cpp-avx2", 1});
  env::host_session session(two, 77);
  (void)session.device_state(1, "lost", 0);
  (void)session.on_time(0);
  auto out = session.on_message(env::welcome_message{5, 77, 1, 1000, 1000}, 7_ms);
  REQUIRE(all<env::credit_message>(out).size() == 1);
  CHECK(all<env::credit_message>(out)[0].device == 0);
  REQUIRE(all<env::heartbeat_message>(out).size() == 1);
  CHECK(all<env::heartbeat_message>(out)[0].quarantined.at(0).device == 1);
  out = session.device_state(1, std::nullopt, 9_ms);
  CHECK(all<env::credit_message>(out).at(0).device == 1);
  CHECK(all<env::credit_message>(out).at(0).n == 1);
}

}  // namespace

TEST_CASE("a host that leaves says so, whatever it holds; one that was never let in is silent") {
  env::host_profile profile;
  profile.lanes = {"cpp"};
  profile.devices = {{0, "cpp-avx2", 1}};
  profile.name = "lab-3";
  env::host_session unadmitted(profile, 1);
  const auto silent = unadmitted.leave();
  CHECK(silent.done);
  CHECK(silent.send.empty());

  env::host_session session(profile, 77);
  (void)session.on_time(0);
  const auto in = session.on_message(env::welcome_message{5, 77, 1, 1000, 1000, "demo"}, 0);
  CHECK(in.joined);
  CHECK(session.joined_text() ==
        "lab-3 has joined run demo: lanes cpp; devices 0 (cpp-avx2, 1 jobs at a time)");
  const auto out = session.leave();
  CHECK(out.done);
  REQUIRE(out.send.size() == 1);
  CHECK(std::get<env::bye_message>(out.send[0]) == env::bye_message{5, 0});
  CHECK(session.on_time(10'000'000'000).send.empty());
}
