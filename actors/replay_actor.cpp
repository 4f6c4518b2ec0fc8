#include "actors/replay_actor.hpp"

#include "actors/actor_guard.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/decide/link_book.hpp"
#include "actors/decide/offer_book.hpp"
#include "actors/decide/step_watch.hpp"
#include "actors/defaults.hpp"
#include "actors/entrance.hpp"
#include "actors/measured_as.hpp"
#include "actors/node.hpp"
#include "actors/replay/rollout.hpp"
#include "actors/replay_guests.hpp"
#include "base/log.hpp"

namespace quern::actors {
namespace {

struct replay_state {
  replay_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~replay_state() {}
  replay_actor_setup setup;
  generator_entries generators;
  learner_entries learners;  ///< ranks of this epoch
  entrance door;
  link_book links;
  std::optional<weights_ready> newest;  ///< of this epoch, what was announced last
  offer_book offers;                    ///< of this epoch
  role_member learner_member = 0;       ///< all ranks, from learner_ready on
  base::steady_clock clock;
  std::optional<step_watch> learner_watch;
  bool evaluators_needed = true;  ///< what the supervisor knows
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
    generator_entry* target = with_room(state.generators);
    if (target == nullptr) return fail_run(self, "a group was issued that no generator asked for");
    ++target->sent;
    target->samples.insert(group.samples.begin(), group.samples.end());
    self->send(target->ref, std::move(group));
  }
  for (evaluate_sample& scout : orders.scout)
    self->send(state.setup.dispatch, std::move(scout));
  send_completions(self, orders.judge);
  // A checkpoint is asked for before the next step, so that it holds the version it is named by.
  for (const auto& [addr, rank] : state.learners) {
    if (orders.save) self->send(rank.ref, *orders.save);
    if (orders.train) self->send(rank.ref, *orders.train);
  }
  if (orders.save) state.learner_watch->sent(learner_work::checkpoint, orders.save->version);
  if (orders.train) {
    state.learner_watch->sent(learner_work::step, orders.train->from);
    state.setup.roles->working(state.learner_member, true);
  }
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
  const offered_work offer = offer_of(self->state.generators, head.version());
  head.generators(offer.free_groups, offer.oldest);
  auto orders = head.advance();
  if (!orders) return fail_run(self, orders.error().message);
  const role_wait held_up = head.held_up();
  if (held_up != role_wait::unknown)
    self->state.setup.roles->waits_for(run_role::generator, held_up);
  carry_out(self, *orders);
  if (const bool needed = head.wants_verdicts();
      std::exchange(self->state.evaluators_needed, needed) != needed)
    self->send(self->state.setup.supervisor, evaluators_needed{needed});
}

/// Somebody who connected, but was not let in.
bool stranger(replay_ptr self) {
  return !self->state.door.known(self);
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
  for (const std::string& address : state.links.take_due())
    if (const learner_entry* first = rank_of(state.learners, 0))
      self->send(first->ref, open_weight_link{state.setup.head->epoch(), address});
}

welcome meet_generator(replay_ptr self, const generator_ref& ref) {
  welcome answer = greet(self);
  generator_entry& entry = self->state.generators[ref.address()];
  entry.ref = ref;
  entry.link = self->state.links.add(answer.epoch, self->state.door.place());
  answer.weights_link = entry.link;
  open_links(self);
  return answer;
}

/// It begins with what the epoch began with, and hears of the newest weights once it has that.
void on_installed(replay_ptr self, generator_entry& entry, const weights_installed& now) {
  const auto& newest = self->state.newest;
  if (entry.installed < 0 && newest && newest->version > now.version)
    self->send(entry.ref, *newest);
  if (entry.member == 0) {
    entry.member = self->state.setup.roles->joined(run_role::generator);
    entry.waited_before = entry.device_wait;
  }
  entry.installed = now.version;
  settle(self, self->state.setup.head->on_weights(now.epoch, now.version, now.hash));
}

/// One rank is gone, and with it the group and the weights above the last checkpoint: the other
/// ranks and the generators that still hold them must start anew as well.
void lose_learner(replay_ptr self) {
  replay_state& state = self->state;
  const std::int64_t in_a_row = state.learner_watch->lost();
  // One more than the supervisor starts again within its window: soon after each other is its news.
  if (in_a_row > state.setup.config->actors.restarts + 1)
    return fail_run(self, fmt::format("the learner was lost {} times without a step in between "
                                      "(actors.restarts is {}); its log says what it was at",
                                      in_a_row, state.setup.config->actors.restarts));
  for (auto& [addr, rank] : state.learners) {
    self->send_exit(rank.ref, caf::exit_reason::user_shutdown);
    // It may hang in a collective with the lost one: the supervisor sees to it that it goes.
    if (const auto start = state.door.start_of(addr))
      self->send(state.setup.supervisor, process_contact{*start, true});
  }
  state.learners.clear();
  if (state.setup.spread) state.door.meet_at("");
  state.setup.roles->left(std::exchange(state.learner_member, 0));
  state.links.learner_lost();
  state.newest.reset();
  for (auto& [addr, entry] : state.generators) {
    state.setup.roles->left(entry.member);
    self->send_exit(entry.ref, caf::exit_reason::user_shutdown);
  }
  state.generators.clear();
  settle(self, state.setup.head->learner_lost());
  state.offers = offer_book(state.setup.head->version());
  self->send(state.setup.dispatch, epoch_began{state.setup.head->epoch()});
}

/// A rank that comes while its predecessor is still counted tells that that one is gone.
void join_learner(replay_ptr self, std::int32_t rank, const learner_ref& ref) {
  replay_state& state = self->state;
  if (rank_of(state.learners, rank) != nullptr) lose_learner(self);
  if (state.learners.empty())
    state.learner_watch->sent(learner_work::load, state.setup.head->start().version);
  state.learners[ref.address()] = {ref, rank};
}

void on_down(replay_ptr self, const caf::actor_addr& who) {
  replay_state& state = self->state;
  if (state.ended) return;
  // Also of a generator that was sent away with its learner and did not go.
  if (const auto start = state.door.forget(who))
    self->send(state.setup.supervisor, process_contact{*start, true});
  if (const auto lost = state.generators.find(who); lost != state.generators.end()) {
    base::log_warn("replay", "a generator is gone; {} samples are made again",
                   lost->second.samples.size());
    const std::vector<sample_id> samples(lost->second.samples.begin(), lost->second.samples.end());
    state.links.drop(lost->second.link);
    state.setup.roles->left(lost->second.member);
    state.generators.erase(lost);
    state.setup.head->generator_lost(samples);
    return advance_soon(self);
  }
  const auto lost = state.learners.extract(who);
  if (lost.empty()) return;
  if (state.setup.config->learner.ranks > 1)
    base::log_warn("replay", "rank {} of the learner is gone: all {} start again",
                   lost.mapped().rank, state.setup.config->learner.ranks);
  lose_learner(self);
}

void announce(replay_ptr self, const weights_ready& weights) {
  replay_state& state = self->state;
  state.newest = weights;
  for (const auto& [addr, entry] : state.generators)
    if (entry.installed >= 0) self->send(entry.ref, weights);
}

/// Not while it steps: what follows the step is offered with it.
void ask_for_offer(replay_ptr self) {
  const replay& head = *self->state.setup.head;
  const learner_entry* first = rank_of(self->state.learners, 0);
  if (first != nullptr && self->state.offers.missing() && !head.stepping())
    self->send(first->ref, offer_weights{head.epoch()});
}

/// One that hangs is treated as one that died: the supervisor kills it.
void look_at_learner(replay_ptr self) {
  replay_state& state = self->state;
  if (state.ended) return;
  state.setup.watch->look();
  if (const auto late = state.learner_watch->look()) {
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
  state.learner_watch->answered(learner_work::step, step.weights.version - (step.left_out ? 0 : 1));
  state.setup.roles->waited_for_device(state.learner_member, step.device_wait_ns);
  state.setup.roles->working(state.learner_member, false);
  if (step.left_out) {
    state.setup.watch->left_out();
  } else {
    state.setup.roles->did(run_role::learner, 1);
    state.setup.watch->stepped(finished_step_of(*state.setup.head, step));
  }
  const base::status result = state.setup.head->on_step(step);
  if (!step.left_out && state.offers.stepped(step.weights.version, step.offered))
    announce(self, step.weights);
  state.setup.head->learner_ready(true);
  settle(self, result);
}

replay_ref::behavior_type replay_actor(replay_ptr self, replay_actor_setup setup) {
  end_on_exception(self, "replay", [self](const std::string& what) { fail_run(self, what); });
  self->state.setup = std::move(setup);
  const replay_actor_setup& with = self->state.setup;
  self->state.offers = offer_book(with.head->version());
  self->state.links = link_book(weights_by_link(*with.config).value_or(false));
  self->state.door = entrance({with.build, config_hash(with.config_yaml), with.secret});
  if (!with.spread) self->state.door.meet_at("unix:" + with.weights_folder);
  self->state.learner_watch.emplace(step_limits::of_model(bytes_at(with.head->start().model)),
                                    self->state.clock);
  self->delayed_send(self, defaults::look_interval, tick{look_tick});
  self->set_down_handler([=](const caf::down_msg& down) { on_down(self, down.source); });
  const auto from_generator = [=]() -> generator_entry* {
    const auto found =
        self->state.generators.find(caf::actor_cast<caf::actor_addr>(self->current_sender()));
    return found == self->state.generators.end() ? nullptr : &found->second;
  };
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
        if (auto* entry = from_generator()) {
          hear(*self->state.setup.roles, *self->state.setup.watch, *entry, credit);
          advance_soon(self);
        }
      },
      [=](const weights_installed& installed) {
        if (auto* entry = from_generator()) on_installed(self, *entry, installed);
      },
      [=](const generated_sample& sample) {
        if (stranger(self)) return;
        const role_board::control_work now(*self->state.setup.roles);
        if (auto* entry = from_generator()) entry->samples.erase(sample.sample);
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
        self->state.learner_watch->answered(learner_work::load, ready.version);
        if (self->state.learner_member == 0)
          self->state.learner_member = self->state.setup.roles->joined(run_role::learner);
        self->state.links.learner_came();
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
        if (self->state.offers.offered(offered.version)) announce(self, offered);
      },
      [=](const checkpoint_saved& saved) {
        if (stranger(self) || saved.epoch != head->epoch()) return;
        const role_board::control_work now(*self->state.setup.roles);
        self->state.learner_watch->answered(learner_work::checkpoint, saved.version);
        settle(self, head->on_checkpoint(saved));
      },
      [=](const drain& order) {
        if (stranger(self)) return;
        head->drain(static_cast<ending>(order.how));
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
        base::log_error(problem.where, "{}", problem.what);
        fail_run(self, problem.where + ": " + problem.what);
      },
      [=](const tick& due) {
        if (stranger(self)) return;
        if (due.what == look_tick) return look_at_learner(self);
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
