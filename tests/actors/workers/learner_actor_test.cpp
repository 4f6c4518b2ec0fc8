// The actor of a learner, with a control that only listens.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "actors/node.hpp"
#include "actors/workers/worker_actors.hpp"
#include "policy/engine/threads.hpp"
#include "support/test.hpp"
#include "tests/actors/workers/small_learner.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

struct told {
  std::mutex guard;
  std::condition_variable changed;
  learner_ref learner;
  std::optional<learner_ready> ready;
  std::optional<step_done> step;
  std::optional<weights_ready> offered;

  template <class What, class News>
  void hear(What told::*what, const News& news) {
    const std::lock_guard lock(guard);
    this->*what = news;
    changed.notify_all();
  }
  /// Once it was heard; at most a minute.
  template <class What>
  bool wait_for(std::optional<What> told::*what) {
    std::unique_lock lock(guard);
    return changed.wait_for(lock, std::chrono::minutes(1),
                            [&] { return (this->*what).has_value(); });
  }
};

orchestrator_ref::behavior_type listener(orchestrator_ref::pointer, told* ears, welcome start) {
  return {
      [=](const hello&, const generator_ref&) -> caf::result<welcome> { return start; },
      [=](const hello&, const learner_ref& who) -> caf::result<welcome> {
        ears->hear(&told::learner, who);
        return start;
      },
      [](const generation_credit&) {},
      [](const weights_installed&) {},
      [](const generated_sample&) {},
      [](const sample_verdict&) {},
      [](const jobs_withdrawn&) {},
      [=](const learner_ready& news) { ears->hear(&told::ready, news); },
      [=](const step_done& news) { ears->hear(&told::step, news); },
      [=](const weights_ready& news) { ears->hear(&told::offered, news); },
      [](const checkpoint_saved&) {},
      [](const process_check&) {},
      [](const drain&) {},
      [](const fatal_problem& problem) { FAIL_CHECK(problem.message); },
      [](const tick&) {},
  };
}

}  // namespace

TEST_CASE("a learner that is asked for its weights answers with those that generators can have") {
  policy::set_threads(1);
  test::small_learner alone(1);
  alone.config.actors.weights = "link";
  told ears;
  node self;
  const auto control = self.system().spawn(listener, &ears, alone.start);
  self.owns(control);
  spawn_learner(self, control, hello{"learner", "", {}, 1, 0, "", ""}, alone.config, {});
  REQUIRE(ears.wait_for(&told::ready));
  caf::anon_send(ears.learner, test::batch_of(0, 1, test::spoilt::nothing));
  caf::anon_send(ears.learner, offer_weights{1});
  REQUIRE(ears.wait_for(&told::step));
  CHECK(ears.step->offered);
  REQUIRE(ears.wait_for(&told::offered));
  CHECK(ears.offered->incarnation == 1);
  CHECK(ears.offered->version == 1);
  CHECK(ears.offered->hash == ears.step->weights.hash);
  caf::anon_send_exit(ears.learner, caf::exit_reason::user_shutdown);
  ears.learner = nullptr;
  self.end_actors();
}
