#include "actors/replay_actor.hpp"

#include <map>
#include <optional>

#include "actors/actor_guard.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/decide/worker_book.hpp"
#include "actors/defaults.hpp"
#include "actors/entrance.hpp"
#include "actors/measured_as.hpp"
#include "actors/node.hpp"
#include "actors/replay/rollout.hpp"
#include "base/log.hpp"

namespace quern::actors {
namespace {

struct replay_state {
  replay_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~replay_state() {}
  replay_actor_setup setup;
  entrance door;
  base::steady_clock clock;
  std::optional<worker_book> workers;
  std::map<caf::actor_addr, worker_id> numbers;  ///< of those who were welcomed, the lost ones too
  std::map<worker_id, generator_ref> generators;
  std::map<worker_id, learner_ref> learners;  ///< ranks of this epoch
  worker_id next_worker = 1;
  bool advancing = false;
  bool ended = false;
};
QUERN_STATE(replay_state);

using replay_ptr = replay_ref::stateful_pointer<replay_state>;

constexpr std::int32_t look_tick = 1;  ///< others are for `advance`

void fail_run(replay_ptr self, const std::string& what) {
  if (self->state.ended) return;
  self->state.ended = true;
  self->send(self->state.setup.supervisor, fatal_problem{"replay", what});
}

/// Acts after the messages that are already in the mailbox.
void advance_soon(replay_ptr self) {
  if (self->state.advancing || self->state.ended) return;
  self->state.advancing = true;
  self->send(self, tick{});
}

/// Takes an event's status; every error of the head of the run is fatal.
void settle(replay_ptr self, const base::status& result) {
  if (!result) return fail_run(self, result.error().message);
  advance_soon(self);
}

void send_completions(replay_ptr self, const std::vector<completion_order>& orders) {
  replay_state& state = self->state;
  const rollout_facts facts{measured_as(*state.setup.config), state.setup.device_class};
  for (const completion_order& order : orders) {
    auto read = read_completion(order, facts);
    if (auto* candidate = std::get_if<evaluate_sample>(&read)) {
      self->send(state.setup.dispatch, std::move(*candidate));
    } else {
      settle(self, state.setup.head->on_verdict(std::get<sample_verdict>(read)));
    }
  }
}

void carry_out(replay_ptr self, replay_orders& orders) {
  replay_state& state = self->state;
  for (const std::uint64_t lease : orders.committed_leases) {
    self->send(state.setup.dispatch, verdict_committed{lease});
  }
  for (generate_group& group : orders.generate) {
    const auto target = state.workers->take_group(group.samples);
    if (!target) return fail_run(self, "a group was issued that no generator asked for");
    self->send(state.generators.at(*target), std::move(group));
  }
  for (evaluate_sample& scout : orders.scout)
    self->send(state.setup.dispatch, std::move(scout));
  send_completions(self, orders.judge);
  // A checkpoint is asked for before the next step, so that it holds the version it is named by.
  for (const worker_id rank : state.workers->ranks()) {
    if (orders.save) self->send(state.learners.at(rank), *orders.save);
    if (orders.train) self->send(state.learners.at(rank), *orders.train);
  }
  if (orders.save) state.workers->sent_checkpoint(orders.save->version);
  if (orders.train) state.workers->sent_step(orders.train->from);
  state.setup.watch->take_news(*state.setup.head);
  if (orders.end) {
    state.ended = true;
    self->send(state.setup.supervisor, *orders.end);
  }
}

void advance(replay_ptr self) {
  self->state.advancing = false;
  if (self->state.ended) return;
  replay& head = *self->state.setup.head;
  const offered_work offer = self->state.workers->offer(head.version());
  head.generators(offer.free_groups, offer.oldest);
  auto orders = head.advance();
  if (!orders) return fail_run(self, orders.error().message);
  const role_wait held_up = head.held_up();
  if (held_up != role_wait::unknown)
    self->state.setup.roles->waits_for(run_role::generator, held_up);
  carry_out(self, *orders);
  if (const auto needed = self->state.workers->verdicts_wanted(head.wants_verdicts()))
    self->send(self->state.setup.supervisor, evaluators_needed{*needed});
}

/// Somebody who connected, but was not let in.
bool stranger(replay_ptr self) {
  return !self->state.door.known(self);
}

/// The number of a worker, which it gets with its first hello.
worker_id number_of(replay_state& state, const caf::actor_addr& who) {
  const auto [known, fresh] = state.numbers.try_emplace(who, state.next_worker);
  if (fresh) ++state.next_worker;
  return known->second;
}

/// Of who sent the message that is handled; 0: it is no worker.
worker_id sender_of(replay_ptr self) {
  const auto known =
      self->state.numbers.find(caf::actor_cast<caf::actor_addr>(self->current_sender()));
  return known == self->state.numbers.end() ? 0 : known->second;
}

/// What a process starts from; where groups meet is not in it.
welcome welcome_of(const starting_point& start, const std::string& config_yaml,
                   const std::string& weights_folder) {
  welcome answer;
  answer.epoch = start.epoch;
  answer.version = start.version;
  answer.checkpoint = start.model;
  answer.optimizer = start.optimizer;
  answer.reference = start.reference;
  answer.config_yaml = config_yaml;
  answer.weights_folder = weights_folder;
  return answer;
}

welcome greet(replay_ptr self) {
  const replay_actor_setup& setup = self->state.setup;
  welcome answer = welcome_of(setup.head->start(), setup.config_yaml, setup.weights_folder);
  answer.meeting = fmt::format("{}/learners-{}", self->state.door.place(), answer.epoch);
  return answer;
}

/// To rank 0, which is there whenever a link is due.
void open_links(replay_ptr self) {
  replay_state& state = self->state;
  for (const std::string& address : state.workers->take_due_links())
    if (const auto first = state.workers->first_rank())
      self->send(state.learners.at(*first), open_weight_link{state.setup.head->epoch(), address});
}

welcome meet_generator(replay_ptr self, const generator_ref& ref) {
  replay_state& state = self->state;
  welcome answer = greet(self);
  const worker_id number = number_of(state, ref.address());
  state.generators[number] = ref;
  answer.weights_link = state.workers->generator_came(number, answer.epoch, state.door.place());
  open_links(self);
  return answer;
}

void on_installed(replay_ptr self, const weights_installed& now) {
  replay_state& state = self->state;
  const worker_id who = sender_of(self);
  const auto news = state.workers->on_installed(who, now);
  if (!news.known) return;
  if (news.newer) self->send(state.generators.at(who), *news.newer);
  settle(self, state.setup.head->on_weights(now.epoch, now.version, now.hash));
}

void lose_learner(replay_ptr self) {
  replay_state& state = self->state;
  const learner_loss loss = state.workers->lose_learner();
  if (!loss.fatal.empty()) return fail_run(self, loss.fatal);
  for (const worker_id who : loss.ranks) {
    const auto rank = state.learners.extract(who);
    if (rank.empty()) continue;
    self->send_exit(rank.mapped(), caf::exit_reason::user_shutdown);
    // It may hang in a collective with the lost one: the supervisor sees to it that it goes.
    if (const auto start = state.door.start_of(rank.mapped().address()))
      self->send(state.setup.supervisor, process_contact{*start, true});
  }
  if (state.setup.spread) state.door.meet_at("");
  for (const worker_id who : loss.generators)
    if (const auto generator = state.generators.extract(who))
      self->send_exit(generator.mapped(), caf::exit_reason::user_shutdown);
  settle(self, state.setup.head->learner_lost());
  state.workers->epoch_began(state.setup.head->version());
  self->send(state.setup.dispatch, epoch_began{state.setup.head->epoch()});
}

void join_learner(replay_ptr self, std::int32_t rank, const learner_ref& ref) {
  replay_state& state = self->state;
  if (state.workers->has_rank(rank)) lose_learner(self);
  const worker_id number = number_of(state, ref.address());
  state.workers->rank_came(number, rank, state.setup.head->start().version);
  state.learners[number] = ref;
}

void on_down(replay_ptr self, const caf::actor_addr& who) {
  replay_state& state = self->state;
  if (state.ended) return;
  // Also of a generator that was sent away with its learner and did not go.
  if (const auto start = state.door.forget(who))
    self->send(state.setup.supervisor, process_contact{*start, true});
  const auto known = state.numbers.extract(who);
  if (known.empty()) return;
  state.generators.erase(known.mapped());
  state.learners.erase(known.mapped());
  const lost_worker lost = state.workers->gone(known.mapped());
  switch (lost.was) {
    case lost_worker::kind::stranger:
      return;
    case lost_worker::kind::generator:
      base::log_warn("replay", "a generator is gone; {} samples are made again",
                     lost.samples.size());
      state.setup.head->generator_lost(lost.samples);
      return advance_soon(self);
    case lost_worker::kind::rank:
      if (state.setup.config->learner.ranks > 1)
        base::log_warn("replay", "rank {} of the learner is gone: all {} start again", lost.rank,
                       state.setup.config->learner.ranks);
      return lose_learner(self);
  }
}

void announce(replay_ptr self, const weights_ready& weights) {
  for (const worker_id who : self->state.workers->announce(weights))
    self->send(self->state.generators.at(who), weights);
}

void ask_for_offer(replay_ptr self) {
  const replay& head = *self->state.setup.head;
  if (const auto first = self->state.workers->to_be_asked_for_offer(head.stepping()))
    self->send(self->state.learners.at(*first), offer_weights{head.epoch()});
}

/// One that hangs is treated as one that died: the supervisor kills it.
void look_at_learner(replay_ptr self) {
  replay_state& state = self->state;
  if (state.ended) return;
  state.setup.watch->look();
  if (const auto late = state.workers->look()) {
    base::log_error("replay", "{}; it is killed and starts again from the last checkpoint",
                    late->text());
    lose_learner(self);
  }
  ask_for_offer(self);
  self->delayed_send(self, defaults::look_interval, tick{look_tick});
}

void on_step_done(replay_ptr self, const step_done& step) {
  replay_state& state = self->state;
  if (step.epoch != state.setup.head->epoch()) return;
  const bool to_be_announced = state.workers->on_step(step);
  if (step.left_out)
    state.setup.watch->left_out();
  else
    state.setup.watch->stepped(finished_step_of(*state.setup.head, step));
  const base::status result = state.setup.head->on_step(step);
  if (to_be_announced) announce(self, step.weights);
  state.setup.head->learner_ready(true);
  settle(self, result);
}

replay_ref::behavior_type replay_actor(replay_ptr self, replay_actor_setup setup) {
  end_on_exception(self, "replay", [self](const std::string& what) { fail_run(self, what); });
  self->state.setup = std::move(setup);
  const replay_actor_setup& with = self->state.setup;
  self->state.workers.emplace(
      worker_book::settings{weights_by_link(*with.config).value_or(false),
                            with.config->actors.restarts},
      step_watch(step_limits::of_model(bytes_at(with.head->start().model)), self->state.clock),
      *with.roles, with.head->version());
  self->state.door = entrance({with.build, config_hash(with.config_yaml), with.secret});
  if (!with.spread) self->state.door.meet_at("unix:" + with.weights_folder);
  self->delayed_send(self, defaults::look_interval, tick{look_tick});
  self->set_down_handler([=](const caf::down_msg& down) { on_down(self, down.source); });
  replay* head = self->state.setup.head;
  return {
      [=](const hello& from, const generator_ref& ref) -> caf::result<welcome> {
        entrance& door = self->state.door;
        if (auto no = door.refuse(from, "generator", ref.address())) return std::move(*no);
        self->send(self->state.setup.supervisor, process_contact{from.start, false});
        self->monitor(ref);
        return door.answer(self, ref.address(), false, [=] { return meet_generator(self, ref); });
      },
      [=](const hello& from, const learner_ref& ref) -> caf::result<welcome> {
        entrance& door = self->state.door;
        if (auto no = door.refuse(from, "learner", ref.address())) return std::move(*no);
        // It may begin an epoch, and what it is welcomed with is of that one.
        join_learner(self, from.rank, ref);
        self->send(self->state.setup.supervisor, process_contact{from.start, false});
        self->monitor(ref);
        if (from.rank == 0 && self->state.setup.spread) door.meet_at(from.meetings);
        return door.answer(self, ref.address(), true, [=] { return greet(self); });
      },
      [=](const generation_credit& credit) {
        const auto news = self->state.workers->on_credit(sender_of(self), credit);
        if (!news) return;
        self->state.setup.watch->generated(*news);
        advance_soon(self);
      },
      [=](const weights_installed& installed) { on_installed(self, installed); },
      [=](const generated_sample& sample) {
        if (stranger(self)) return;
        const role_board::control_work now(*self->state.setup.roles);
        self->state.workers->on_generated(sender_of(self), sample.sample);
        settle(self, head->on_generated(sample));
      },
      [=](const sample_verdict& verdict) {
        if (stranger(self)) return;
        const role_board::control_work now(*self->state.setup.roles);
        settle(self, head->on_verdict(verdict));
      },
      [=](const jobs_withdrawn& news) {
        if (stranger(self)) return;
        head->on_withdrawn(news);
        advance_soon(self);
      },
      [=](const learner_ready& ready) {
        if (stranger(self) || ready.epoch != head->epoch()) return;
        head->learner_ready(true);
        self->state.workers->learner_is_ready(ready.version);
        open_links(self);
        settle(self, head->on_weights(ready.epoch, ready.version, ready.hash));
      },
      [=](const step_done& step) {
        if (stranger(self)) return;
        const role_board::control_work now(*self->state.setup.roles);
        on_step_done(self, step);
      },
      [=](const weights_ready& offered) {
        if (stranger(self) || offered.epoch != head->epoch()) return;
        if (self->state.workers->on_offered(offered.version)) announce(self, offered);
      },
      [=](const checkpoint_saved& saved) {
        if (stranger(self) || saved.epoch != head->epoch()) return;
        const role_board::control_work now(*self->state.setup.roles);
        self->state.workers->on_checkpoint(saved.version);
        settle(self, head->on_checkpoint(saved));
      },
      [=](const drain& order) {
        if (stranger(self)) return;
        head->drain(static_cast<ending>(order.ending_kind));
        self->send(self->state.setup.dispatch, order);
        // From now on nobody is to be kept at work.
        self->state.setup.roles->pause(true);
        advance_soon(self);
      },
      [=](const process_check& asked) {
        if (stranger(self)) return;
        self->send(self->state.setup.supervisor, process_check{asked.role, asked.start, true});
      },
      [=](const fatal_problem& problem) {
        if (stranger(self)) return;
        base::log_error(problem.where, "{}", problem.message);
        fail_run(self, problem.where + ": " + problem.message);
      },
      [=](const tick& due) {
        if (stranger(self)) return;
        if (due.purpose == look_tick) return look_at_learner(self);
        const role_board::control_work now(*self->state.setup.roles);
        advance(self);
      },
  };
}

}  // namespace

replay_ref spawn_replay(caf::actor_system& system, replay_actor_setup setup) {
  return system.spawn<caf::detached>(replay_actor, std::move(setup));
}

}  // namespace quern::actors
