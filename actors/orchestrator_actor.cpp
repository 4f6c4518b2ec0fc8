#include "actors/orchestrator_actor.hpp"

#include <map>
#include <optional>

#include "actors/actor_guard.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/defaults.hpp"
#include "actors/measured_as.hpp"
#include "actors/node.hpp"
#include "actors/orchestrator/run_head.hpp"
#include "actors/process_admission.hpp"

namespace quern::actors {
namespace {

struct orchestrator_state {
  orchestrator_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~orchestrator_state() {}
  head_actor_setup setup;
  process_admission admission;
  std::unique_ptr<head_policy> head;
  std::map<caf::actor_addr, worker_id> numbers;  ///< of those who were welcomed, the lost ones too
  std::map<worker_id, generator_ref> generators;
  std::map<worker_id, learner_ref> learners;  ///< ranks of this incarnation
  worker_id next_worker = 1;
};
QUERN_STATE(orchestrator_state);

using orchestrator_ptr = orchestrator_ref::stateful_pointer<orchestrator_state>;

constexpr std::int32_t look_tick = 1;  ///< others are for `advance`

// ---- effects ----

void send_worker_away(orchestrator_ptr self, const send_away& order) {
  orchestrator_state& state = self->state;
  if (const auto rank = state.learners.extract(order.who)) {
    self->send_exit(rank.mapped(), caf::exit_reason::user_shutdown);
    const auto start = state.admission.start_of(rank.mapped().address());
    if (start && order.may_hang) self->send(state.setup.supervisor, process_contact{*start, true});
  }
  if (const auto generator = state.generators.extract(order.who))
    self->send_exit(generator.mapped(), caf::exit_reason::user_shutdown);
}

/// Sends each effect of the head to whom it is for.
struct carrier {
  orchestrator_ptr self;

  void operator()(to_generator& effect) const {
    send_each(self->state.generators.at(effect.who), effect.message);
  }
  void operator()(to_learner& effect) const {
    send_each(self->state.learners.at(effect.who), effect.message);
  }
  void operator()(to_dispatch& effect) const {
    send_each(self->state.setup.dispatch, effect.message);
  }
  void operator()(to_supervisor& effect) const {
    send_each(self->state.setup.supervisor, effect.message);
  }
  void operator()(const send_away& effect) const { send_worker_away(self, effect); }
  void operator()(const forget_rendezvous_place&) const { self->state.admission.rendezvous_at(""); }
  void operator()(const advance_later&) const { self->send(self, tick{}); }

 private:
  template <class Target, class Messages>
  void send_each(const Target& target, Messages& message) const {
    std::visit([&](auto& one) { self->send(target, std::move(one)); }, message);
  }
};

void carry_out(orchestrator_ptr self) {
  for (head_effect& effect : self->state.head->take_effects())
    std::visit(carrier{self}, effect);
}

// ---- senders ----

/// Somebody who connected, but was not let in.
bool not_admitted(orchestrator_ptr self) {
  return !self->state.admission.known(self);
}

/// The number of a worker, which it gets with its first hello.
worker_id number_of(orchestrator_state& state, const caf::actor_addr& who) {
  const auto [known, fresh] = state.numbers.try_emplace(who, state.next_worker);
  if (fresh) ++state.next_worker;
  return known->second;
}

/// Of who sent the message that is handled; 0: it is no worker.
worker_id sender_of(orchestrator_ptr self) {
  const auto known =
      self->state.numbers.find(caf::actor_cast<caf::actor_addr>(self->current_sender()));
  return known == self->state.numbers.end() ? 0 : known->second;
}

welcome welcome_generator(orchestrator_ptr self, const generator_ref& ref) {
  orchestrator_state& state = self->state;
  const worker_id number = number_of(state, ref.address());
  state.generators[number] = ref;
  welcome answer = state.head->generator_came(number, state.admission.place());
  carry_out(self);
  return answer;
}

void join_learner(orchestrator_ptr self, std::int32_t rank, const learner_ref& ref) {
  orchestrator_state& state = self->state;
  const worker_id number = number_of(state, ref.address());
  state.head->learner()->rank_came(number, rank);
  carry_out(self);
  state.learners[number] = ref;
}

void on_down(orchestrator_ptr self, const caf::actor_addr& who) {
  orchestrator_state& state = self->state;
  if (state.head->ended()) return;
  // Also of a generator that was sent away with its learner and did not go.
  if (const auto start = state.admission.forget(who))
    self->send(state.setup.supervisor, process_contact{*start, true});
  const auto known = state.numbers.extract(who);
  if (known.empty()) return;
  state.generators.erase(known.mapped());
  state.learners.erase(known.mapped());
  state.head->worker_gone(known.mapped());
  carry_out(self);
}

orchestrator_ref::behavior_type orchestrator_actor(
    orchestrator_ptr self, head_actor_setup setup,
    std::shared_ptr<std::unique_ptr<head_policy>> policy) {
  end_on_exception(self, "orchestrator", [self](const std::string& what) {
    if (self->state.head && self->state.head->ended()) return;
    self->send(self->state.setup.supervisor, fatal_problem{"orchestrator", what});
  });
  self->state.setup = std::move(setup);
  const head_actor_setup& with = self->state.setup;
  self->state.head = std::move(*policy);
  self->state.admission =
      process_admission({with.build, config_hash(with.config_yaml), with.secret});
  if (!with.spread) self->state.admission.rendezvous_at("unix:" + with.weights_folder);
  self->delayed_send(self, defaults::look_interval, tick{look_tick});
  self->set_down_handler([=](const caf::down_msg& down) { on_down(self, down.source); });
  head_policy* head = self->state.head.get();
  learner_policy* learner = head->learner();
  carry_out(self);
  return {
      [=](const hello& from, const generator_ref& ref) -> caf::result<welcome> {
        process_admission& admission = self->state.admission;
        if (auto no = admission.refuse(from, "generator", ref.address())) return std::move(*no);
        self->send(self->state.setup.supervisor, process_contact{from.start, false});
        self->monitor(ref);
        return admission.answer(self, ref.address(), false,
                                [=] { return welcome_generator(self, ref); });
      },
      [=](const hello& from, const learner_ref& ref) -> caf::result<welcome> {
        process_admission& admission = self->state.admission;
        if (learner == nullptr)
          return caf::make_error(caf::sec::runtime_error, "this run has no learner");
        if (auto no = admission.refuse(from, "learner", ref.address())) return std::move(*no);
        // It may begin an incarnation, and what it is welcomed with is of that one.
        join_learner(self, from.rank, ref);
        self->send(self->state.setup.supervisor, process_contact{from.start, false});
        self->monitor(ref);
        if (from.rank == 0 && self->state.setup.spread) admission.rendezvous_at(from.rendezvous);
        return admission.answer(self, ref.address(), true, [=] {
          return learner->learner_welcome(self->state.admission.place());
        });
      },
      [=](const generation_credit& credit) {
        head->on_credit(sender_of(self), credit);
        carry_out(self);
      },
      [=](const weights_installed& installed) {
        head->on_installed(sender_of(self), installed);
        carry_out(self);
      },
      [=](const generated_sample& sample) {
        if (not_admitted(self)) return;
        const role_board::control_work now(*self->state.setup.roles);
        head->on_generated(sender_of(self), sample);
        carry_out(self);
      },
      [=](const sample_verdict& verdict) {
        if (not_admitted(self)) return;
        const role_board::control_work now(*self->state.setup.roles);
        head->on_verdict(verdict);
        carry_out(self);
      },
      [=](const jobs_withdrawn& news) {
        if (not_admitted(self)) return;
        head->on_withdrawn(news);
        carry_out(self);
      },
      [=](const learner_ready& ready) {
        if (not_admitted(self) || learner == nullptr) return;
        learner->on_ready(ready);
        carry_out(self);
      },
      [=](const step_done& step) {
        if (not_admitted(self) || learner == nullptr) return;
        const role_board::control_work now(*self->state.setup.roles);
        learner->on_step(step);
        carry_out(self);
      },
      [=](const weights_ready& offered) {
        if (not_admitted(self) || learner == nullptr) return;
        learner->on_offered(offered);
        carry_out(self);
      },
      [=](const checkpoint_saved& saved) {
        if (not_admitted(self) || learner == nullptr) return;
        const role_board::control_work now(*self->state.setup.roles);
        learner->on_checkpoint(saved);
        carry_out(self);
      },
      [=](const drain& order) {
        if (not_admitted(self)) return;
        head->on_drain(order);
        carry_out(self);
      },
      [=](const process_check& asked) {
        if (not_admitted(self)) return;
        self->send(self->state.setup.supervisor, process_check{asked.role, asked.start, true});
      },
      [=](const fatal_problem& problem) {
        if (not_admitted(self)) return;
        head->on_problem(problem);
        carry_out(self);
      },
      [=](const tick& due) {
        if (not_admitted(self)) return;
        if (due.purpose == look_tick) {
          head->look();
          carry_out(self);
          if (!head->ended()) self->delayed_send(self, defaults::look_interval, tick{look_tick});
          return;
        }
        const role_board::control_work now(*self->state.setup.roles);
        head->advance();
        carry_out(self);
      },
  };
}

std::unique_ptr<head_policy> make_head(const orchestrator_actor_setup& with) {
  static const base::steady_clock clock;
  const worker_book::settings chosen{weights_by_link(*with.config).value_or(false),
                                     with.config->actors.restarts};
  step_watch watch(step_limits::of_model(bytes_at(with.head->start().model)), clock);
  head_facts facts{with.config_yaml,
                   with.weights_folder,
                   {measured_as(*with.config), with.device_class},
                   with.spread,
                   with.config->learner.ranks};
  return std::make_unique<run_head>(
      std::move(facts), worker_book(chosen, std::move(watch), *with.roles, with.head->version()),
      *with.head, *with.watch, *with.roles);
}

}  // namespace

orchestrator_ref spawn_head(caf::actor_system& system, head_actor_setup setup,
                            std::unique_ptr<head_policy> policy) {
  // Copied on its way to the actor, which takes the policy.
  return system.spawn<caf::detached>(
      orchestrator_actor, std::move(setup),
      std::make_shared<std::unique_ptr<head_policy>>(std::move(policy)));
}

orchestrator_ref spawn_orchestrator(caf::actor_system& system, orchestrator_actor_setup setup) {
  head_actor_setup carried{setup.config_yaml, setup.build, setup.weights_folder, setup.dispatch,
                           setup.supervisor,  setup.roles, setup.secret,         setup.spread};
  return spawn_head(system, std::move(carried), make_head(setup));
}

}  // namespace quern::actors
