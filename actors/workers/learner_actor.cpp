// The actor that feeds a learning_worker.
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "actors/defaults.hpp"
#include "actors/workers/learning_worker.hpp"
#include "actors/workers/worker_actors.hpp"
#include "actors/workers/worker_end.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"
#include "policy/engine/threads.hpp"

namespace quern::actors {
namespace {

struct learner_state {
  learner_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~learner_state() {}
  std::optional<learning_worker> worker;
  orchestrator_ref control;
  weights_version start = 0;  ///< that it was welcomed with
  worker_code code;
};
QUERN_STATE(learner_state);

using learner_ptr = learner_ref::stateful_pointer<learner_state>;

void give_up(learner_ptr self, const std::string& what) {
  base::log_error("learner", "{}", what);
  self->send(self->state.control, fatal_problem{"learner", what});
  self->state.code->store(EXIT_FAILURE);
  self->quit(caf::exit_reason::user_shutdown);
}

std::string name_of_rank(learner_ptr self, std::int32_t rank) {
  const auto& worker = self->state.worker;
  return fmt::format(
      "learner rank {}, {}", rank,
      worker ? worker->where() : fmt::format("loading, version {}", self->state.start));
}

void fail(learner_ptr self, const base::error& problem, const run_config& config) {
  if (group_failed(problem, config)) leave_group(problem);
  give_up(self, problem.message);
}

void start(learner_ptr self, const welcome& start, const run_config& config, std::int32_t rank,
           const own_address& here) {
  policy::set_threads(1);  // the trainer's workers are the threads
  base::name_this_thread("learner");
  self->state.start = start.version;
  auto worker = learning_worker::make(start, config, rank, here);
  if (!worker) return fail(self, worker.error(), config);
  self->state.worker.emplace(std::move(*worker));
  if (rank == 0) self->send(self->state.control, self->state.worker->ready());
}

learner_ref::behavior_type learner_actor(learner_ptr self, orchestrator_ref control,
                                         hello introduction, run_config config, own_address here,
                                         worker_code code, std::function<void()> farewell) {
  self->attach_functor([farewell = std::move(farewell)] { farewell(); });
  self->state.control = control;
  self->state.code = std::move(code);
  self->monitor(control);
  self->set_down_handler([=](const caf::down_msg&) {
    base::log_error("learner", "control is gone");
    self->state.code->store(EXIT_FAILURE);
    self->quit(caf::exit_reason::remote_link_unreachable);
  });
  const std::int32_t rank = introduction.rank;
  self->set_exception_handler([=](std::exception_ptr& thrown) -> caf::error {
    end_worker("learner", error_of(thrown, name_of_rank(self, rank)));
  });
  self->request(control, defaults::welcome_timeout, std::move(introduction),
                caf::actor_cast<learner_ref>(self))
      .then([=](const welcome& welcomed) { start(self, welcomed, config, rank, here); },
            [=](const caf::error& problem) {
              base::log_error("learner", "control refused: {}", self->system().render(problem));
              self->state.code->store(EXIT_FAILURE);
              self->quit(caf::exit_reason::user_shutdown);
            });
  return {
      [=](const train_batch& batch) {
        auto done = self->state.worker->step(batch);
        if (!done) return fail(self, done.error(), config);
        if (rank == 0) self->send(self->state.control, std::move(*done));
      },
      [=](const save_checkpoint& order) {
        // In the name of this actor, since control listens to nobody that it does not know.
        const auto me = caf::actor_cast<caf::actor>(self);
        self->state.worker->save(order, [control, me](const checkpoint_saved& saved) {
          caf::send_as(me, control, saved);
        });
      },
      [=](const open_weight_link& order) {
        // It costs the generator its weights, not the learner its run.
        if (auto opened = self->state.worker->open_link(order, config); !opened)
          base::log_error("learner", "no link for weights at {}: {}", order.address,
                          opened.error().message);
      },
      [=](const offer_weights& order) {
        if (rank != 0 || !self->state.worker) return;
        auto ready = self->state.worker->offer(order);
        if (!ready) return fail(self, ready.error(), config);
        if (*ready) self->send(self->state.control, std::move(**ready));
      },
  };
}

}  // namespace

worker_code spawn_learner(node& self, const orchestrator_ref& control, const hello& introduction,
                          const run_config& config, const own_address& here) {
  auto code = std::make_shared<std::atomic<int>>(EXIT_SUCCESS);
  self.system().spawn<caf::detached>(learner_actor, control, introduction, config, here, code,
                                     std::function<void()>(self.farewell()));
  return code;
}

}  // namespace quern::actors
