#include "actors/dispatch_actor.hpp"

#include <algorithm>
#include <future>
#include <optional>

#include "actors/actor_guard.hpp"
#include "actors/host_news.hpp"
#include "actors/orchestrator/dispatch_head.hpp"

namespace quern::actors {
namespace {

struct dispatch_state {
  dispatch_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~dispatch_state() {}
  std::shared_ptr<dispatch_sink> sink;
  std::unique_ptr<gateway_events> events;
  std::unique_ptr<gateway> hosts;
  std::optional<dispatch_head> head;
  base::steady_clock clock;
};
QUERN_STATE(dispatch_state);

using dispatch_ptr = dispatch_ref::stateful_pointer<dispatch_state>;

/// Sends each effect of the head to whom it is for.
struct dispatch_carrier {
  dispatch_ptr self;

  void operator()(to_host& effect) const {
    std::visit([this](auto& one) { to_gateway(one); }, effect.message);
  }
  void operator()(to_run_head& effect) const {
    std::visit([this](auto& one) { self->send(self->state.sink->orchestrator, std::move(one)); },
               effect.message);
  }
  void operator()(about_hosts& effect) const {
    std::visit([this](auto& one) { self->send(self->state.sink->supervisor, std::move(one)); },
               effect.message);
  }
  void operator()(const wake_at& effect) const {
    const auto wait = std::max<base::nanoseconds_t>(effect.when - self->state.clock.now_ns(), 0);
    self->delayed_send(self, std::chrono::nanoseconds(wait), tick{});
  }

 private:
  void to_gateway(env::job_message& job) const { self->state.hosts->send_job(std::move(job)); }
  void to_gateway(const acknowledge_lease& over) const {
    self->state.hosts->acknowledge(over.session, over.lease, over.accepted);
  }
  void to_gateway(const cancel_lease& over) const {
    self->state.hosts->cancel(over.session, over.lease, over.device);
  }
  void to_gateway(refuse_host& no) const {
    self->state.hosts->refuse(no.session, std::move(no.code), std::move(no.text),
                              std::move(no.hint));
  }
};

void carry_out_dispatch(dispatch_ptr self) {
  for (dispatch_effect& effect : self->state.head->take_effects())
    std::visit(dispatch_carrier{self}, effect);
}

/// What spawn_dispatch hands over, and where it waits for the gateway to be bound.
struct opening {
  dispatch_setup setup;
  std::shared_ptr<dispatch_sink> sink;
  std::promise<base::status> bound;
};

dispatch_ref::behavior_type dispatch_actor(dispatch_ptr self, std::shared_ptr<opening> with) {
  dispatch_state& state = self->state;
  end_on_exception(
      self, "dispatch", [self, waiting = std::weak_ptr(with)](const std::string& what) {
        if (const auto asked = waiting.lock())
          return asked->bound.set_value(base::fail(base::errc::exhausted, "dispatch: {}", what));
        self->send(self->state.sink->supervisor, fatal_problem{"dispatch", what});
      });
  const dispatch_setup& setup = with->setup;
  state.sink = with->sink;
  state.events = forward_host_news(*setup.tasks, caf::actor_cast<dispatch_ref>(self));
  auto started = gateway::start(setup.gateway, *state.events, state.clock);
  if (!started) {
    with->bound.set_value(tl::make_unexpected(started.error()));
    self->quit();
    return dispatch_ref::behavior_type::make_empty_behavior();
  }
  state.hosts = std::move(*started);
  state.sink->endpoints = state.hosts->endpoints();
  evaluation_scheduler::limits limits(
      {retry_limits::within(setup.config->env.max_attempts),
       static_cast<base::nanoseconds_t>(setup.config->actors.lease_s * 1e9)});
  limits.queue.queue = setup.queue;
  state.head.emplace(
      dispatch_head::settings{
          setup.config, setup.tasks, setup.device_class, setup.incarnation, setup.gateway.lease_ms,
          setup.board ? setup.board : std::make_shared<device_board>(),
          setup.roles ? setup.roles : std::make_shared<role_board>(state.clock)},
      limits);
  with->bound.set_value({});
  dispatch_head* head = &*state.head;
  const auto now = [self] { return self->state.clock.now_ns(); };
  return {
      [=](const evaluate_sample& job) {
        head->on_job(job, now());
        carry_out_dispatch(self);
      },
      [=](const verdict_committed& done) {
        head->on_committed(done);
        carry_out_dispatch(self);
      },
      [=](const incarnation_began& began) {
        head->on_incarnation(began);
        carry_out_dispatch(self);
      },
      [=](const drain&) {
        head->on_drain(now());
        carry_out_dispatch(self);
      },
      [=](const host_joined& host) {
        head->on_joined(host);
        carry_out_dispatch(self);
      },
      [=](const host_credit& credit) {
        head->on_credit(credit, now());
        carry_out_dispatch(self);
      },
      [=](const host_answer& answer) {
        head->on_answer(answer, now());
        carry_out_dispatch(self);
      },
      [=](const host_leaves& host) {
        head->on_leaves(host, now());
        carry_out_dispatch(self);
      },
      [=](const host_devices& host) {
        head->on_devices(host, now(), base::unix_time_ns());
        carry_out_dispatch(self);
      },
      [=](const tick&) {
        head->on_time(now());
        carry_out_dispatch(self);
      },
  };
}

}  // namespace

base::expected<dispatch_ref> spawn_dispatch(caf::actor_system& system, dispatch_setup setup,
                                            std::shared_ptr<dispatch_sink> sink) {
  auto with = std::make_shared<opening>();
  with->setup = std::move(setup);
  with->sink = std::move(sink);
  auto bound = with->bound.get_future();
  dispatch_ref ref = system.spawn<caf::detached>(dispatch_actor, with);
  QUERN_CHECK(bound.get());
  return ref;
}

}  // namespace quern::actors
