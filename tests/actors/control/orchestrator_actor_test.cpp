// The orchestrator actor with a learner and a generator that say what a test has them say: who is
// told of new weights, and when the learner is asked for those that it could not offer.
#include "actors/orchestrator_actor.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "actors/monitor.hpp"
#include "actors/node.hpp"
#include "support/test.hpp"
#include "tests/actors/orchestrator/orchestrator_fixture.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

/// What the two workers were told.
class workers_heard {
 public:
  void asked(const offer_weights& order) {
    const std::lock_guard lock(guard_);
    asked_.push_back(order.incarnation);
    changed_.notify_all();
  }
  void announced(const weights_ready& weights) {
    const std::lock_guard lock(guard_);
    announced_.push_back(weights);
    changed_.notify_all();
  }
  /// Once there are so many of both; at most a minute.
  bool wait_for(std::size_t asked, std::size_t announced) {
    std::unique_lock lock(guard_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] {
      return asked_.size() >= asked && announced_.size() >= announced;
    });
  }
  std::vector<incarnation_id> all_asked() {
    const std::lock_guard lock(guard_);
    return asked_;
  }
  std::vector<weights_ready> all_announced() {
    const std::lock_guard lock(guard_);
    return announced_;
  }

 private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<incarnation_id> asked_;
  std::vector<weights_ready> announced_;
};

learner_ref::behavior_type quiet_learner(learner_ref::pointer, workers_heard* ears) {
  return {[](const train_batch&) {}, [](const save_checkpoint&) {}, [](const open_weight_link&) {},
          [=](const offer_weights& order) { ears->asked(order); }};
}

generator_ref::behavior_type quiet_generator(generator_ref::pointer, workers_heard* ears) {
  return {[](const generate_group&) {}, [=](const weights_ready& news) { ears->announced(news); },
          [](const cancel_generation&) {}, [](const weights_arrived&) {}, [](const tick&) {}};
}

dispatch_ref::behavior_type quiet_dispatch(dispatch_ref::pointer) {
  return {[](const evaluate_sample&) {},   [](const verdict_committed&) {},
          [](const incarnation_began&) {}, [](const drain&) {},
          [](const host_joined&) {},       [](const host_credit&) {},
          [](const host_answer&) {},       [](const host_leaves&) {},
          [](const host_devices&) {},      [](const tick&) {}};
}

supervisor_ref::behavior_type quiet_supervisor(supervisor_ref::pointer) {
  return {[](const process_ended&) {},
          [](const process_contact&) {},
          [](const process_check&) {},
          [](const evaluators_present&) {},
          [](const evaluators_needed&) {},
          [](const drain&) {},
          [](const drained&) {},
          [](const fatal_problem&) {},
          [](const tick&) {}};
}

/// The head of a new run under its actor, with both workers let in and ready.
struct run_with_workers {
  test::fixture f;
  storage::run_directory run =
      storage::run_directory::create(f.folder.path() / "run", "quern_config: 2\n", {{"seed", 1}})
          .value();
  std::unique_ptr<orchestrator> head =
      orchestrator::open(f.config, run, *f.tasks, "cpp-avx2").value();
  base::steady_clock clock;
  role_board roles{clock};
  device_board devices;
  std::unique_ptr<monitor> watch =
      monitor::make(f.config, run.paths(), 0, {roles, devices, clock}).value();
  workers_heard ears;
  node self;
  orchestrator_ref control;
  learner_ref learner;
  generator_ref generator;
  incarnation_id incarnation = 0;

  run_with_workers() {
    caf::actor_system& system = self.system();
    const auto dispatch = system.spawn(quiet_dispatch);
    const auto supervisor = system.spawn(quiet_supervisor);
    control = spawn_orchestrator(
        system, {&f.config, "config", "build", "cpp-avx2", f.folder.path(), head.get(), watch.get(),
                 dispatch, supervisor, &roles, "secret", false});
    learner = system.spawn(quiet_learner, &ears);
    generator = system.spawn(quiet_generator, &ears);
    self.owns(dispatch);
    self.owns(supervisor);
    self.owns(learner);
    self.owns(generator);
    self.owns(control);
    incarnation = let_in("learner", 1, learner).incarnation;
    let_in("generator", 2, generator);
    from_learner(learner_ready{incarnation, 0, test::weights_of(0)});
    caf::send_as(generator, control, weights_installed{incarnation, 0, test::weights_of(0)});
  }
  ~run_with_workers() { self.end_actors(); }

  template <class Message>
  void from_learner(const Message& message) {
    caf::send_as(learner, control, message);
  }
  /// The step that makes `version`.
  void steps(weights_version version, bool offered) {
    step_done done;
    done.incarnation = incarnation;
    done.weights = {incarnation, version, test::weights_of(version), "with the step"};
    done.metrics = "{}";
    done.offered = offered;
    from_learner(done);
  }

 private:
  template <class Worker>
  welcome let_in(const char* role, std::int32_t start, const Worker& who) {
    hello from{role, "build", config_hash("config"), start, 0, "secret", ""};
    welcome answer;
    caf::scoped_actor asking(self.system());
    asking->request(control, std::chrono::seconds(60), from, who)
        .receive([&](const welcome& welcomed) { answer = welcomed; },
                 [&](const caf::error& problem) { FAIL(self.system().render(problem)); });
    return answer;
  }
};

}  // namespace

TEST_CASE("weights that a step did not offer are asked for, and announced when they are offered") {
  run_with_workers run;
  run.steps(1, false);
  REQUIRE(run.ears.wait_for(1, 0));
  CHECK(run.ears.all_asked().front() == run.incarnation);
  run.from_learner(weights_ready{run.incarnation, 1, test::weights_of(1), "offered later"});
  // Once, and not after its successor.
  run.from_learner(weights_ready{run.incarnation, 1, test::weights_of(1), "twice"});
  run.steps(2, true);
  REQUIRE(run.ears.wait_for(1, 2));
  const auto announced = run.ears.all_announced();
  REQUIRE(announced.size() == 2);
  CHECK(announced[0].version == 1);
  CHECK(announced[0].hash == test::weights_of(1));
  CHECK(announced[0].file == "offered later");
  CHECK(announced[1].version == 2);
  CHECK(announced[1].file == "with the step");
}

TEST_CASE("that a step's weights are not offered reaches another process") {
  node self;
  step_done sent, came;
  sent.offered = false;
  std::vector<char> bytes;
  caf::binary_serializer sink(self.system(), bytes);
  REQUIRE_FALSE(sink(sent));
  caf::binary_deserializer source(self.system(), bytes);
  REQUIRE_FALSE(source(came));
  CHECK_FALSE(came.offered);
}
