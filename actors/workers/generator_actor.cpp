// The actor that feeds a generation_worker.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "actors/defaults.hpp"
#include "actors/workers/generation_worker.hpp"
#include "actors/workers/worker_actors.hpp"
#include "actors/workers/worker_end.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/priority.hpp"
#include "policy/engine/threads.hpp"

namespace quern::actors {
namespace {

struct generator_state {
  generator_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~generator_state() {}
  std::optional<generation_worker> worker;
  orchestrator_ref control;
  std::unordered_map<group_id, std::size_t> left;  ///< samples of a group still to come
  std::unordered_map<sample_id, group_id> group_of;
  std::int64_t granted = 0;
  bool stepping = false;
  bool working = false;             ///< as control was told last
  base::nanoseconds_t told_ns = 0;  ///< when that was
  base::steady_clock clock;
  std::int64_t head_start = 0;  ///< groups of the first step that are still to be made
  std::int64_t held_back = 0;   ///< groups not asked for until then
  const char* phase = "rendezvous";
  weights_version version = 0;  ///< installed last
  worker_code code;
};
QUERN_STATE(generator_state);

using generator_ptr = generator_ref::stateful_pointer<generator_state>;

void give_up(generator_ptr self, const std::string& what) {
  base::log_error("generator", "{}", what);
  self->send(self->state.control, fatal_problem{"generator", what});
  self->state.code->store(EXIT_FAILURE);
  self->quit(caf::exit_reason::user_shutdown);
}

/// Without whoever fetches them, by a link or from files, it would never have new weights: this
/// process ends at once, whatever a transport's threads are in, and the next one begins anew.
[[noreturn]] void leave_without_weights(const std::string& problem) {
  base::log_error("generator",
                  "new weights do not come any more: {}; this process ends and starts again",
                  problem);
  std::fflush(nullptr);
  ::_exit(defaults::group_failed_code);
}

void tell_installed(generator_ptr self,
                    const base::expected<std::optional<weights_installed>>& done) {
  if (!done) return give_up(self, done.error().message);
  if (!*done) return;
  self->state.version = (*done)->version;
  self->send(self->state.control, **done);
}

void tell_control(generator_ptr self, bool working) {
  generator_state& state = self->state;
  state.working = working;
  state.told_ns = state.clock.now_ns();
  self->send(state.control,
             generation_credit{state.granted, working, state.worker->tokens(),
                               state.worker->device_wait_ns(), state.worker->work()});
}

void start(generator_ptr self, const welcome& start, const run_config& config,
           const own_address& here) {
  generator_state& state = self->state;
  policy::set_threads(static_cast<int>(config.actors.generator_threads));
  state.phase = "loading";
  state.version = start.version;
  const auto me = caf::actor_cast<generator_ref>(self);
  auto worker = generation_worker::make(start, config, here, [me](const std::string& problem) {
    caf::anon_send(me, weights_arrived{problem});
  });
  if (!worker) return give_up(self, worker.error().message);
  state.worker.emplace(std::move(*worker));
  state.head_start = config.algorithm.groups_per_step;
  self->send(state.control, state.worker->installed());
  const std::int64_t room = state.worker->slots() / config.algorithm.group_size +
                            defaults::generator_queue / config.algorithm.group_size;
  state.granted = std::min(room, state.head_start);
  state.held_back = room - state.granted;
  tell_control(self, false);
}

void keep_stepping(generator_ptr self) {
  if (self->state.stepping || self->state.worker->idle()) return;
  self->state.stepping = true;
  if (!self->state.working) tell_control(self, true);
  self->send(self, tick{});
}

void step(generator_ptr self) {
  generator_state& state = self->state;
  state.stepping = false;
  state.phase = "sampling";
  std::int64_t groups = 0;
  for (generated_sample& sample : state.worker->step()) {
    const auto group = state.group_of.extract(sample.sample);
    if (!group.empty() && --state.left[group.mapped()] == 0) {
      state.left.erase(group.mapped());
      ++groups;
    }
    self->send(state.control, std::move(sample));
  }
  // Everybody waits for the first groups: they are made alone. From then on the generator is ahead
  // by design, and where cores are few, evaluators and the learner come first.
  if (state.head_start > 0 && (state.head_start -= groups) <= 0) {
    base::set_niceness(19);
    state.granted += std::exchange(state.held_back, 0);
  }
  state.granted += groups;
  const bool working = !state.worker->idle();
  constexpr base::nanoseconds_t interval =
      std::chrono::nanoseconds(defaults::status_interval).count();
  if (groups > 0 || working != state.working || state.clock.now_ns() - state.told_ns >= interval)
    tell_control(self, working);
  keep_stepping(self);
}

generator_ref::behavior_type generator_actor(generator_ptr self, orchestrator_ref control,
                                             hello introduction, run_config config,
                                             own_address here, worker_code code,
                                             std::function<void()> farewell) {
  self->attach_functor([farewell = std::move(farewell)] { farewell(); });
  self->state.control = control;
  self->state.code = std::move(code);
  self->set_exception_handler([=](std::exception_ptr& thrown) -> caf::error {
    end_worker("generator", error_of(thrown, fmt::format("generator, {}, version {}",
                                                         self->state.phase, self->state.version)));
  });
  self->monitor(control);
  self->set_down_handler([=](const caf::down_msg&) {
    base::log_error("generator", "control is gone");
    self->state.code->store(EXIT_FAILURE);
    self->quit(caf::exit_reason::remote_link_unreachable);
  });
  self->request(control, defaults::welcome_timeout, std::move(introduction),
                caf::actor_cast<generator_ref>(self))
      .then([=](const welcome& welcomed) { start(self, welcomed, config, here); },
            [=](const caf::error& problem) {
              base::log_error("generator", "control refused: {}", self->system().render(problem));
              self->state.code->store(EXIT_FAILURE);
              self->quit(caf::exit_reason::user_shutdown);
            });
  return {
      [=](const generate_group& group) {
        self->state.phase = "taking a prompt";
        if (auto queued = self->state.worker->submit(group); !queued) {
          return give_up(self, queued.error().message);
        }
        self->state.left[group.group] = group.samples.size();
        for (const sample_id sample : group.samples)
          self->state.group_of[sample] = group.group;
        keep_stepping(self);
      },
      [=](const weights_ready& ready) {
        self->state.phase = "installing weights";
        tell_installed(self, self->state.worker->install(ready));
      },
      [=](const cancel_generation& which) { self->state.worker->cancel(which.samples); },
      [=](const weights_arrived& news) {
        if (!news.problem.empty()) leave_without_weights(news.problem);
        self->state.phase = "installing weights";
        tell_installed(self, self->state.worker->install_arrived());
      },
      [=](const tick&) { step(self); },
  };
}

}  // namespace

worker_code spawn_generator(node& self, const orchestrator_ref& control, const hello& introduction,
                            const run_config& config, const own_address& here) {
  auto code = std::make_shared<std::atomic<int>>(EXIT_SUCCESS);
  self.system().spawn<caf::detached>(generator_actor, control, introduction, config, here, code,
                                     std::function<void()>(self.farewell()));
  return code;
}

}  // namespace quern::actors
