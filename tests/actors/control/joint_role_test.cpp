// A role whose processes are started together, with shell scripts for them: what is told of their
// ends, and what becomes of the others.
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "actors/node.hpp"
#include "actors/supervisor.hpp"
#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using base::operator""_s;

namespace {

struct ended {
  run_end how;
  double seconds = 0;
  [[nodiscard]] bool paused() const { return !how.finished && how.problem.empty(); }
};

/// Processes "a", "b", ... with logs called so.
std::vector<process_plan> scripts_in(const std::filesystem::path& folder,
                                     const std::vector<std::string>& scripts) {
  std::vector<process_plan> plans;
  for (const std::string& text : scripts) {
    const std::string name(1, static_cast<char>('a' + plans.size()));
    process_plan plan{name, {.argv = {"/bin/sh", "-c", text}, .log = folder / name}};
    plan.says_hello = introduction::to_nobody;
    plans.push_back(std::move(plan));
  }
  return plans;
}

role joint(const std::string& name, std::vector<process_plan> plans, const joint_limits& limits) {
  role made = role_of(name, role_restarts::together, std::move(plans));
  made.limits = limits;
  made.kept = {"record", [] { return std::int64_t{0}; }};
  return made;
}

using pause_source = std::function<pause_request(double)>;

/// Until the supervisor says that the run has ended.
ended supervise(std::vector<role> roles, const pause_source& asked) {
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  node self;
  supervisor_setup setup;
  setup.roles = std::make_shared<std::vector<role>>(std::move(roles));
  setup.end = std::make_shared<std::promise<run_end>>();
  auto end = setup.end->get_future();
  const auto supervisor = spawn_supervisor(self.system(), setup);
  self.owns(supervisor);
  caf::anon_send(supervisor, tick{});
  pause_request told = pause_request::none;
  while (end.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
    const pause_request now = asked(static_cast<double>(clock.now_ns() - begin) / 1e9);
    if (now <= told) continue;
    told = now;
    caf::anon_send(supervisor, drain{0, now == pause_request::at_once});
  }
  const run_end how = end.get();
  self.end_actors();
  return {how, static_cast<double>(clock.now_ns() - begin) / 1e9};
}

/// A loss ends the run: nothing is started again.
ended run(const std::vector<std::string>& scripts, joint_limits limits, const pause_source& asked) {
  const auto folder = base::temp_folder::make().value();
  limits.restarts.most = 0;
  return supervise({joint("letters", scripts_in(folder.path(), scripts), limits)}, asked);
}

pause_request nobody_asks(double /*seconds*/) {
  return pause_request::none;
}

ended run(const std::vector<std::string>& scripts, base::nanoseconds_t others = 20_s) {
  return run(scripts, {.others = others}, nobody_asks);
}

/// Asks for a pause once `count` scripts have set their traps, which each says with mark().
class asked_when_ready {
 public:
  explicit asked_when_ready(int count) : count_(count) {}

  /// A command for the k-th script, behind its trap.
  [[nodiscard]] std::string mark(int k) const { return ": > " + file(k) + "; "; }

  pause_request operator()(double seconds) {
    for (int k = 0; k < count_ && at_ < 0; ++k)
      if (!std::filesystem::exists(file(k))) return pause_request::none;
    if (at_ < 0) at_ = seconds;
    return pause_request::in_order;
  }

  /// In seconds since the role began.
  [[nodiscard]] double at() const { return at_; }

 private:
  [[nodiscard]] std::string file(int k) const {
    return (folder_.path() / std::to_string(k)).string();
  }

  base::temp_folder folder_ = std::move(base::temp_folder::make().value());
  int count_;
  double at_ = -1;
};

bool is_loss(const run_end& how) {
  return test::contains(how.problem, "1 losses since the last new record");
}

}  // namespace

TEST_CASE("all ended well, or one has paused by itself") {
  CHECK(run({"exit 0", "sleep 0.1"}).how.finished);
  CHECK(run({"exit 0", "exit 3"}).paused());
  const auto both = run({"exit 3", "exit 1"}).how;
  CHECK_FALSE(is_loss(both));
  CHECK(test::contains(both.problem, "b ended: exit code 1"));
}

TEST_CASE("told is whoever said what is wrong, then whoever was killed, then whoever left") {
  const auto killed = run({"exit 4", "kill -9 $$"}).how;
  CHECK(is_loss(killed));
  CHECK(test::contains(killed.problem, "b ended: killed by signal 9"));
  const auto thrown = run({"exit 4", "exit 5"}).how;
  CHECK(is_loss(thrown));
  CHECK(test::contains(thrown.problem, "b ended: exit code 5; its log is"));
  const auto left = run({"exit 4", "exit 0"}).how;
  CHECK(is_loss(left));
  CHECK(test::contains(left.problem, "a ended: exit code 4; its log is"));
  const auto said = run({"exit 4", "kill -9 $$", "sleep 0.2; exit 1"}).how;
  CHECK_FALSE(is_loss(said));
  CHECK(test::contains(said.problem, "c ended: exit code 1"));
}

TEST_CASE("when one has failed the others have their time, and no more") {
  const auto waited = run({"exit 4", "sleep 1; exit 0"});
  CHECK(test::contains(waited.how.problem, "a ended"));
  const auto cut_off = run({"exit 4", "exec sleep 600"}, 200'000'000);
  CHECK(is_loss(cut_off.how));
  CHECK(test::contains(cut_off.how.problem, "a ended: exit code 4"));
  CHECK(test::contains(cut_off.how.problem, "b did not end by itself and was killed"));
  CHECK(cut_off.seconds < 300);
  // One that ended well, or paused, is no reason to wait for ever, and no failure either.
  for (const char* first : {"exit 0", "exit 3"}) {
    const auto left_alone = run({first, "exec sleep 600"}, 200'000'000);
    CHECK(left_alone.how.problem.empty());
    CHECK(left_alone.paused() == (first == std::string("exit 3")));
    CHECK(left_alone.seconds < 300);
  }
}

TEST_CASE("a pause that is asked for is passed on") {
  const auto pausing = [](const std::string& mark) {
    return "trap 'exit 3' TERM; " + mark + "while :; do sleep 0.05; done";
  };
  asked_when_ready both(2);
  const auto paused =
      run({pausing(both.mark(0)), pausing(both.mark(1))}, {.others = 20_s}, std::ref(both));
  CHECK(paused.paused());
  CHECK(paused.seconds < 300);
  // One that is stopped goes on with it, and keeps what it has. Another process says when it is.
  asked_when_ready one(1);
  const std::string stops = "(until grep -q 'State:.T' /proc/$$/status; do sleep 0.02; done; " +
                            one.mark(0) + ") & kill -STOP $$; ";
  const auto stopped = run({pausing(stops)}, {.pause = 60_s}, std::ref(one));
  CHECK(stopped.paused());
  CHECK(stopped.seconds - one.at() < 60);
}

TEST_CASE("a pause that is not answered ends at its limit, or at once when that is asked for") {
  const auto deaf = [](const std::string& mark) {
    return "trap '' TERM; " + mark + "while :; do sleep 0.05; done";
  };
  asked_when_ready in_order(1);
  const auto late =
      run({deaf(in_order.mark(0)), "exit 0"}, {.pause = 300'000'000}, std::ref(in_order));
  CHECK(late.paused());
  CHECK(late.seconds - in_order.at() >= 0.3);
  asked_when_ready first(1);
  const auto at_once = run({deaf(first.mark(0))}, {}, [&](double seconds) {
    const pause_request asked = first(seconds);
    return asked != pause_request::none && seconds > first.at() + 0.5 ? pause_request::at_once
                                                                      : asked;
  });
  CHECK(at_once.paused());
}

TEST_CASE("who uses no time of a processor is killed and lost, who is slow is not") {
  const auto frozen = run({"kill -STOP $$"}, {.silence = 1_s}, nobody_asks);
  CHECK(is_loss(frozen.how));
  CHECK(test::contains(frozen.how.problem, "a gave no sign of life for 1 s and was killed"));
  const auto slow =
      run({"i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done"}, {.silence = 1_s}, nobody_asks);
  CHECK(slow.how.finished);
}

TEST_CASE("where one is lost the others may be asked to pause, which is no pause of the run") {
  const auto lost =
      run({"sleep 0.5; kill -9 $$", "trap 'exit 3' TERM; while :; do sleep 0.05; done"},
          {.pause_others = true}, nobody_asks);
  CHECK(is_loss(lost.how));
  CHECK(test::contains(lost.how.problem, "a ended: killed by signal 9"));
}

TEST_CASE("who says what is wrong in a log is quoted") {
  const auto said = run({"echo first; echo the disk is full; exit 1"}).how;
  CHECK(test::contains(said.problem, "a ended: exit code 1 (the disk is full); its log is"));
}

TEST_CASE("after a loss all start again, as long as something new is kept") {
  const auto folder = base::temp_folder::make().value();
  const auto log = folder.path() / "a";
  // The third start does what was to be done; "b" is there in each.
  const std::string third =
      "echo began; test $(grep -c began " + log.string() + ") -ge 3 && exit 0; kill -9 $$";
  std::int64_t kept = 0;
  role one = joint("letters", scripts_in(folder.path(), {third, "echo began"}), {});
  one.limits.restarts = {2, 60_s, 1'000'000, 1'000'000};
  one.kept.reached = [&] { return ++kept; };
  CHECK(supervise({one}, nobody_asks).how.finished);
  CHECK(base::read_file(log).value() == "began\nbegan\nbegan\n");
  CHECK(base::read_file(folder.path() / "b").value() == "began\nbegan\nbegan\n");
  // The same with nothing new is given up, before the limit of restarts would end it.
  role in_vain = joint("letters", scripts_in(folder.path(), {"kill -9 $$"}), {});
  in_vain.limits.restarts = {2, 1'000'000, 1'000'000, 1'000'000};
  const auto given_up = supervise({in_vain}, nobody_asks).how;
  CHECK(test::contains(given_up.problem, "a ended: killed by signal 9"));
  CHECK(test::contains(given_up.problem, "3 losses since the last new record"));
}

TEST_CASE("roles whose processes work together come one after the other") {
  const auto folder = base::temp_folder::make().value();
  const auto first_log = folder.path() / "a";
  const role first = joint("first", scripts_in(folder.path(), {"sleep 0.3; echo done"}), {});
  // It ends well only where the first one is done.
  const auto second_of = [&](const std::string& text) {
    auto plans = scripts_in(folder.path(), {text});
    plans[0].spec.log = folder.path() / "second";
    return joint("second", std::move(plans), {.restarts = {.most = 0}});
  };
  const std::string look = "grep -q done " + first_log.string();
  CHECK(supervise({first, second_of(look)}, nobody_asks).how.finished);
  // What has no processes has nothing to do.
  CHECK(supervise({joint("none", {}, {}), second_of("exit 0")}, nobody_asks).how.finished);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "third"));
  // A pause ends the run with the first one.
  const auto paused = supervise({first, second_of("touch " + (folder.path() / "third").string())},
                                [](double) { return pause_request::in_order; });
  CHECK(paused.paused());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "third"));
}
