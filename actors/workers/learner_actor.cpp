// The actor that feeds a learning_worker.
#include <optional>

#include "actors/defaults.hpp"
#include "actors/workers/learning_worker.hpp"
#include "actors/workers/worker_actors.hpp"
#include "base/log.hpp"
#include "policy/engine/threads.hpp"

namespace quern::actors {
namespace {

struct learner_state {
  learner_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~learner_state() {}
  std::optional<learning_worker> worker;
  replay_ref control;
};
QUERN_STATE(learner_state);

using learner_ptr = learner_ref::stateful_pointer<learner_state>;

void give_up(learner_ptr self, const std::string& what) {
  base::log_error("learner", "{}", what);
  self->send(self->state.control, fatal_problem{"learner", what});
  self->quit(caf::exit_reason::user_shutdown);
}

void start(learner_ptr self, const welcome& start, const run_config& config) {
  policy::set_threads(1);  // the trainer's workers are the threads
  auto worker = learning_worker::make(start, config);
  if (!worker) return give_up(self, worker.error().message);
  self->state.worker.emplace(std::move(*worker));
  self->send(self->state.control, self->state.worker->ready());
}

learner_ref::behavior_type learner_actor(learner_ptr self, replay_ref control, hello introduction,
                                         run_config config) {
  self->state.control = control;
  self->monitor(control);
  self->set_down_handler([=](const caf::down_msg&) {
    base::log_error("learner", "control is gone");
    self->quit(caf::exit_reason::remote_link_unreachable);
  });
  self->request(control, defaults::hello_timeout, std::move(introduction),
                caf::actor_cast<learner_ref>(self))
      .then([=](const welcome& welcomed) { start(self, welcomed, config); },
            [=](const caf::error& problem) {
              base::log_error("learner", "control refused: {}", self->system().render(problem));
              self->quit(caf::exit_reason::user_shutdown);
            });
  return {
      [=](const train_batch& batch) {
        auto done = self->state.worker->step(batch);
        if (!done) return give_up(self, done.error().message);
        self->send(self->state.control, std::move(*done));
      },
      [=](const save_checkpoint& order) {
        self->send(self->state.control, self->state.worker->save(order));
      },
  };
}

}  // namespace

void spawn_learner(caf::actor_system& system, const replay_ref& control, const hello& introduction,
                   const run_config& config) {
  system.spawn<caf::detached>(learner_actor, control, introduction, config);
}

}  // namespace quern::actors
