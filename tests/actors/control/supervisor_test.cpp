// The supervisor with shell scripts for processes: whom it kills, and how.
#include "actors/supervisor.hpp"

#include <functional>
#include <future>

#include <pthread.h>

#include "actors/defaults.hpp"
#include "actors/dispatch_actor.hpp"
#include "actors/node.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "env/plugin/zmq_socket.hpp"
#include "support/caught_stderr.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

process_plan script(const std::string& name, const std::string& text,
                    const std::filesystem::path& log) {
  return {name, {.argv = {"/bin/sh", "-c", text}, .log = log}};
}

/// One role for each process, in order.
std::shared_ptr<std::vector<role>> roles_of(std::vector<process_plan> plans) {
  auto roles = std::make_shared<std::vector<role>>();
  for (process_plan& plan : plans) {
    const bool evaluates = plan.says_hello == introduction::to_gateway;
    roles->push_back(role_of(plan.name, evaluates ? role_restarts::aside : role_restarts::alone,
                             {std::move(plan)}));
  }
  return roles;
}

/// Processes under a supervisor; numbers of starts are those of `plans`, from 1.
struct supervised {
  node self;
  std::shared_ptr<std::promise<run_end>> end = std::make_shared<std::promise<run_end>>();
  supervisor_ref supervisor;

  std::shared_ptr<device_board> board = std::make_shared<device_board>();

  using make_orchestrator = std::function<orchestrator_ref(caf::actor_system&)>;

  explicit supervised(std::vector<process_plan> plans, plural_limits evaluators = {},
                      const make_orchestrator& orchestrator = {},
                      const std::string& hosts_join_at = "") {
    supervisor_setup setup;
    setup.hosts_join_at = hosts_join_at;
    setup.evaluators = evaluators;
    setup.board = board;
    setup.roles = roles_of(std::move(plans));
    setup.orchestrator = std::make_shared<orchestrator_ref>();
    if (orchestrator) {
      *setup.orchestrator = orchestrator(self.system());
      self.owns(*setup.orchestrator);
    }
    setup.end = end;
    supervisor = spawn_supervisor(self.system(), setup);
    self.owns(supervisor);
    caf::anon_send(supervisor, tick{});
  }
  void tell(const process_contact& news) { caf::anon_send(supervisor, news); }
  void present(std::int64_t count) { caf::anon_send(supervisor, evaluators_present{count, ""}); }
  void quarantined(const std::string& shortage) {
    caf::anon_send(supervisor, evaluators_present{0, shortage});
  }
};

process_plan evaluator(const std::string& role, const std::string& text,
                       const std::filesystem::path& log) {
  auto plan = script(role, text, log);
  plan.says_hello = introduction::to_gateway;
  return plan;
}

plural_limits soon_aside() {
  plural_limits limits;
  limits.restarts = {2, 60'000'000'000, 1'000'000, 10'000'000};
  limits.aside_ns = limits.longest_aside_ns = 50'000'000;
  limits.absence_ns = 200'000'000;
  return limits;
}

/// An evaluator host that says it was the run's start `number`, and leaves as soon as it is let in.
void come_and_leave(env::zmq_socket& socket, std::int64_t number) {
  env::hello_message hello{
      1, 1, "raw", static_cast<std::uint64_t>(number), {"cpp"}, {{0, "cpp-test", 1}}};
  hello.start = number;
  REQUIRE(socket.send({}, env::encode(hello).value()));
  while (true) {
    REQUIRE(env::wait_for(socket, -1, 20'000).socket);
    const auto in = socket.receive().value();
    if (!in) continue;
    const auto what = env::decode(in->parts).value();
    if (const auto* welcome = std::get_if<env::welcome_message>(&what)) {
      REQUIRE(socket.send({}, env::encode(env::bye_message{welcome->session, 0}).value()));
      return;
    }
  }
}

/// How often a script has said `word`, once it is `count` times or `seconds` have passed.
std::size_t said(const std::filesystem::path& log, std::string_view word, std::size_t count,
                 std::chrono::seconds seconds) {
  const auto until = std::chrono::steady_clock::now() + seconds;
  while (true) {
    const std::string text = base::read_file(log).value_or("");
    std::size_t found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      ++found;
    if (found >= count || std::chrono::steady_clock::now() >= until) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

constexpr const char* sleeper = "echo began; exec sleep 600";

}  // namespace

namespace {

/// An orchestrator actor that is told when to look at what came to it, as one that waits for run.db
/// until then: a hello of start 1, and checks.
orchestrator_ref::behavior_type late(orchestrator_ref::pointer self,
                                     std::shared_ptr<std::promise<void>> asked,
                                     std::shared_future<void> free) {
  const auto nobody = [] { return caf::make_error(caf::sec::runtime_error, "nobody joins here"); };
  return {
      [=](const hello&, const generator_ref&) -> caf::result<welcome> { return nobody(); },
      [=](const hello&, const learner_ref&) -> caf::result<welcome> { return nobody(); },
      [](const generation_credit&) {},
      [](const weights_installed&) {},
      [](const generated_sample&) {},
      [](const sample_verdict&) {},
      [](const jobs_withdrawn&) {},
      [](const learner_ready&) {},
      [](const step_done&) {},
      [](const weights_ready&) {},
      [](const checkpoint_saved&) {},
      [=](const process_check& check) {
        const auto supervisor = caf::actor_cast<supervisor_ref>(self->current_sender());
        if (check.start == 1) {
          asked->set_value();
          free.wait();
          self->send(supervisor, process_contact{1, false, false});
        }
        self->send(supervisor, process_check{check.role, check.start, true});
      },
      [](const drain&) {},
      [](const fatal_problem&) {},
      [](const tick&) {},
  };
}

}  // namespace

TEST_CASE("a hello that waits for run.db is not a start that failed; none at all is one") {
  const auto folder = base::temp_folder::make().value();
  const auto greeting_log = folder.path() / "greeting", silent_log = folder.path() / "silent";
  const auto asked = std::make_shared<std::promise<void>>();
  std::promise<void> free;
  supervised run(
      {script("learner", sleeper, greeting_log), script("generator", sleeper, silent_log)}, {},
      [&](caf::actor_system& system) {
        return system.spawn<caf::detached>(late, asked, free.get_future().share());
      });
  REQUIRE(said(greeting_log, "began", 1, std::chrono::seconds(20)) == 1);
  REQUIRE(said(silent_log, "began", 1, std::chrono::seconds(20)) == 1);
  // The time for a start is over.
  caf::anon_send(run.supervisor, process_check{"learner", 1});
  caf::anon_send(run.supervisor, process_check{"generator", 2});
  const auto was_asked = asked->get_future().wait_for(std::chrono::seconds(30));
  free.set_value();
  CHECK(was_asked == std::future_status::ready);
  CHECK(said(silent_log, "began", 2, std::chrono::seconds(30)) == 2);
  // Its check came before.
  CHECK(said(greeting_log, "began", 2, std::chrono::seconds(2)) == 1);
  run.self.end_actors();
}

TEST_CASE("what an evaluator says of itself is believed of evaluators alone") {
  const auto folder = base::temp_folder::make().value();
  run_config config;
  config.tasks.count = 1;
  config.tasks.held_out_count = 0;
  const auto tasks = task_book::make(config).value();
  const auto learner_log = folder.path() / "learner", evaluator_log = folder.path() / "evaluator";
  supervised run(
      {script("learner", sleeper, learner_log), evaluator("evaluator-0", sleeper, evaluator_log)});
  REQUIRE(said(learner_log, "began", 1, std::chrono::seconds(20)) == 1);
  REQUIRE(said(evaluator_log, "began", 1, std::chrono::seconds(20)) == 1);
  const auto sink = std::make_shared<dispatch_sink>();
  sink->supervisor = run.supervisor;
  dispatch_setup setup{&config, &tasks, "cpp-test", 1, {}};
  setup.gateway.endpoints = {"ipc://" + (folder.path() / "hosts").string()};
  setup.gateway.incarnation = 1;
  const auto dispatch = spawn_dispatch(run.self.system(), setup, sink);
  REQUIRE(dispatch);
  run.self.owns(*dispatch);
  env::zmq_context context;
  auto host = env::zmq_socket::open(context, env::socket_kind::dealer).value();
  REQUIRE(host.connect(sink->endpoints.at(0)));
  // The first is the learner's number.
  come_and_leave(host, 1);
  come_and_leave(host, 2);
  // The learner's check would have come before that of the evaluator, which was killed.
  CHECK(said(evaluator_log, "began", 2, std::chrono::seconds(30)) == 2);
  CHECK(said(learner_log, "began", 2, std::chrono::seconds(1)) == 1);
  run.tell({1, true, false});
  CHECK(said(learner_log, "began", 2, std::chrono::seconds(30)) == 2);
  run.self.end_actors();
}

TEST_CASE("an evaluator that keeps dying is set aside and tried again; the run goes on") {
  const auto folder = base::temp_folder::make().value();
  const auto good_log = folder.path() / "good", bad_log = folder.path() / "bad";
  supervised run({evaluator("evaluator-0", sleeper, good_log),
                  evaluator("evaluator-1", "echo began; exit 7", bad_log)},
                 soon_aside());
  run.present(1);
  REQUIRE(said(good_log, "began", 1, std::chrono::seconds(20)) == 1);
  // Three starts, and more after it was set aside.
  CHECK(said(bad_log, "began", 6, std::chrono::seconds(30)) >= 6);
  CHECK(said(good_log, "began", 2, std::chrono::seconds(0)) == 1);
  auto ended = run.end->get_future();
  CHECK(ended.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
  const auto aside = run.board->aside();
  REQUIRE(aside.size() == 1);
  CHECK(aside[0]["role"] == "evaluator-1");
  CHECK(aside[0]["reason"].get<std::string>().find(bad_log.string()) != std::string::npos);
  // The last one that was present goes: the run ends, but only after a while, and says why.
  run.present(0);
  REQUIRE(ended.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  const std::string problem = ended.get().problem;
  CAPTURE(problem);
  CHECK(problem.find("no evaluator took work") != std::string::npos);
  CHECK(problem.find("evaluator-1 ended") != std::string::npos);
  run.self.end_actors();
}

TEST_CASE("a run whose devices are all in quarantine says so at once, and ends after a while") {
  const auto folder = base::temp_folder::make().value();
  auto limits = soon_aside();
  limits.absence_ns = 2'000'000'000;
  std::string said_now;
  std::string problem;
  {
    test::caught_stderr caught(folder.path() / "said");
    supervised run({evaluator("evaluator-0", sleeper, folder.path() / "log")}, limits);
    run.present(1);
    run.quarantined("device 0 of host a is in quarantine: no room");
    auto ended = run.end->get_future();
    CHECK(ended.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    // It has passed a test, and fails again.
    run.present(1);
    run.quarantined("device 0 of host a is in quarantine: no memory");
    REQUIRE(ended.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
    problem = ended.get().problem;
    run.self.end_actors();
    for (const std::string& line : caught.lines())
      said_now += line + "\n";
  }
  CAPTURE(said_now);
  CHECK(test::contains(said_now,
                       "no device to evaluate on: device 0 of host a is in quarantine: no "
                       "room; candidates wait, and the run ends in "));
  CHECK(test::contains(said_now, "there are devices to evaluate on again"));
  CAPTURE(problem);
  CHECK(test::contains(problem, "no evaluator took work for " +
                                    base::human_duration(limits.absence_ns) +
                                    "; device 0 of host a is in quarantine: no memory; mend it and "
                                    "quern resume"));
}

TEST_CASE("a run that nobody evaluates for says where hosts may join") {
  const auto folder = base::temp_folder::make().value();
  plural_limits limits;
  limits.unsaid_ns = 50'000'000;
  const test::caught_stderr caught(folder.path() / "said");
  supervised run({}, limits, {}, "tcp://10.0.0.1:7000");
  const auto said = [&](const std::string& what) {
    for (int look = 0; look < 3000; ++look) {
      if (test::contains(base::read_file(folder.path() / "said").value_or(""), what)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  };
  CHECK(
      said("no device to evaluate on: no evaluator is here, hosts may join at "
           "tcp://10.0.0.1:7000; candidates wait"));
  run.present(1);
  CHECK(said("there are devices to evaluate on again"));
  run.self.end_actors();
}

TEST_CASE("evaluators in quarantine do not end a run whose last step needs none") {
  const auto folder = base::temp_folder::make().value();
  auto limits = soon_aside();
  limits.absence_ns = 300'000'000;
  supervised run({evaluator("evaluator-0", sleeper, folder.path() / "log")}, limits);
  caf::anon_send(run.supervisor, evaluators_needed{false});
  run.present(1);
  run.quarantined("device 0 of host a is in quarantine: no room");
  auto ended = run.end->get_future();
  CHECK(ended.wait_for(std::chrono::seconds(2)) == std::future_status::timeout);
  // The learner was lost, and with it the step.
  caf::anon_send(run.supervisor, evaluators_needed{true});
  REQUIRE(ended.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  CHECK(test::contains(ended.get().problem, "no evaluator took work"));
  run.self.end_actors();
}

TEST_CASE("a role that there is one of ends the run when it dies too often") {
  const auto folder = base::temp_folder::make().value();
  supervised run({script("generator", "exit 7", folder.path() / "log")});
  auto ended = run.end->get_future();
  REQUIRE(ended.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  CHECK(ended.get().problem.find("generator ended 6 times") != std::string::npos);
  run.self.end_actors();
}

namespace {

/// Until it goes, the system makes no thread: no stack is as large as that.
class no_threads {
 public:
  no_threads() {
    REQUIRE(pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t huge{};
    REQUIRE(pthread_attr_init(&huge) == 0);
    REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 50U) == 0);
    REQUIRE(pthread_setattr_default_np(&huge) == 0);
    pthread_attr_destroy(&huge);
  }
  ~no_threads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

}  // namespace

TEST_CASE(
    "a supervisor that cannot watch a process ends the run with the cause, and its processes") {
  const auto folder = base::temp_folder::make().value();
  node self;
  supervisor_setup setup;
  const std::string text = "trap 'echo asked; exit 0' TERM; while true; do sleep 0.05; done";
  setup.roles = roles_of({script("learner", text, folder.path() / "log")});
  setup.orchestrator = std::make_shared<orchestrator_ref>();
  setup.end = std::make_shared<std::promise<run_end>>();
  const auto supervisor = spawn_supervisor(self.system(), setup);
  self.owns(supervisor);
  auto end = setup.end->get_future();
  {
    const no_threads now;
    caf::anon_send(supervisor, tick{});
    REQUIRE(end.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  }
  const run_end ended = end.get();
  CHECK_FALSE(ended.finished);
  CHECK(test::contains(ended.problem, "no thread for watching learner"));
  CHECK(test::contains(ended.problem, "pids.max"));
  self.end_actors();
}

TEST_CASE("the launch command of a frozen process is asked to end before it is killed") {
  const auto folder = base::temp_folder::make().value();
  const auto polite_log = folder.path() / "polite", deaf_log = folder.path() / "deaf";
  // What it has started on another host is ended by the end of input, and a request passed on.
  auto polite = script("generator",
                       "echo began; trap 'echo asked; exit 0' TERM; cat; echo input over; "
                       "while true; do sleep 0.05; done",
                       polite_log);
  auto deaf = script("learner",
                     "echo began; trap '' TERM; cat; echo input over; "
                     "while true; do sleep 0.05; done",
                     deaf_log);
  for (process_plan* plan : {&polite, &deaf}) {
    plan->host = "node1";
    plan->launch = "env HOST={host}";
  }
  supervised run({polite, deaf});
  REQUIRE(said(polite_log, "began", 1, std::chrono::seconds(20)) == 1);
  REQUIRE(said(deaf_log, "began", 1, std::chrono::seconds(20)) == 1);
  const auto asked = std::chrono::steady_clock::now();
  run.tell({1, true});
  run.tell({2, true});
  CHECK(said(polite_log, "asked", 1, std::chrono::seconds(30)) == 1);
  CHECK(said(polite_log, "began", 2, std::chrono::seconds(30)) == 2);
  CHECK(said(deaf_log, "input over", 1, std::chrono::seconds(30)) == 1);
  CHECK(said(deaf_log, "began", 2, std::chrono::seconds(30)) == 2);
  CHECK(std::chrono::steady_clock::now() - asked >= 2 * defaults::exit_grace);
}
