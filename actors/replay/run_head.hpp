// Everything that the head of a run decides, without actors: each message of a generator, of the
// learner, of the dispatcher or of the supervisor is a call, and what follows from it is a list of
// effects. The replay actor and the simulation (tools/sim) own one each and carry the effects out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/decide/role_board.hpp"
#include "actors/decide/worker_book.hpp"
#include "actors/messages.hpp"
#include "actors/replay/replay.hpp"
#include "actors/replay/rollout.hpp"
#include "actors/replay/run_observer.hpp"

namespace quern::actors {

// ---- effects: one message to be sent, or one thing to be done ----

struct to_generator {
  worker_id who = 0;
  std::variant<generate_group, weights_ready> message;
};
struct to_learner {
  worker_id who = 0;  ///< a rank
  std::variant<train_batch, save_checkpoint, open_weight_link, offer_weights> message;
};
struct to_dispatch {
  std::variant<evaluate_sample, verdict_committed, incarnation_began, drain> message;
};
struct to_supervisor {
  std::variant<evaluators_needed, drained, fatal_problem> message;
};
/// A worker that was let in is to end. `may_hang`: the supervisor kills it where it does not.
struct send_away {
  worker_id who = 0;
  bool may_hang = false;
};
/// The place where groups meet is that of a learner that is gone.
struct forget_meeting_place {};
/// `advance` is to be called after the messages that have already come.
struct advance_later {};

using head_effect = std::variant<to_generator, to_learner, to_dispatch, to_supervisor, send_away,
                                 forget_meeting_place, advance_later>;

/// What welcomes and verdicts carry of a run's set-up.
struct head_facts {
  std::string config_yaml;
  std::string weights_folder;
  rollout_facts rollout;
  bool spread = false;  ///< roles are on several hosts: groups meet where rank 0 says
  std::int64_t ranks = 1;
};

/// Only messages of workers that were let in may be given to it: `worker_id` 0 is a sender that is
/// no worker. After each call the owner takes the effects and carries them out in their order. An
/// error of any part is an effect, too: `fatal_problem`, once. Not thread-safe.
class run_head {
 public:
  /// `memory`, `observer` and `roles` outlive it.
  run_head(head_facts facts, worker_book workers, replay& memory, run_observer& observer,
           role_board& roles);

  /// What is to be done since the last call, in order.
  std::vector<head_effect> take_effects() { return std::exchange(effects_, {}); }

  // ---- workers that come and go ----
  /// A generator was let in. What it is welcomed with; `place`: where groups meet.
  welcome generator_came(worker_id who, const std::string& place);
  /// A rank was let in. It may end an incarnation; `learner_welcome` is asked for after it.
  void rank_came(worker_id who, std::int32_t rank);
  [[nodiscard]] welcome learner_welcome(const std::string& place) const;
  /// The worker is gone, whatever it was.
  void worker_gone(worker_id who);

  // ---- messages of workers; `from`: who sent it ----
  void on_credit(worker_id from, const generation_credit& credit);
  void on_installed(worker_id from, const weights_installed& now);
  void on_generated(worker_id from, const generated_sample& sample);
  void on_ready(const learner_ready& ready);
  void on_step(const step_done& step);
  /// The learner offers weights after their step.
  void on_offered(const weights_ready& offered);
  void on_checkpoint(const checkpoint_saved& saved);

  // ---- messages of control's own actors ----
  void on_verdict(const sample_verdict& verdict);
  void on_withdrawn(const jobs_withdrawn& news);
  void on_drain(const drain& order);
  void on_problem(const fatal_problem& problem);

  /// What `advance_later` asks for: acts upon all that has come since, with one commit.
  void advance();
  /// Once each look interval: a learner that hangs is treated as one that died, weights that could
  /// not be offered are asked for.
  void look();

  /// The run is over: `drained` or `fatal_problem` is among the effects that were given out.
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] const replay& memory() const { return memory_; }

 private:
  /// Not inlined: g++ 12 takes the unused alternatives of a moved variant for uninitialised values.
  template <class Effect>
  [[gnu::noinline]] void effect(Effect one) {
    effects_.emplace_back(std::move(one));
  }
  void fail_run(std::string message);
  void advance_soon();
  /// Takes an event's status; every error of the memory is fatal.
  void settle(const base::status& result);
  [[nodiscard]] welcome greet(const std::string& place) const;
  void open_links();
  void announce(const weights_ready& weights);
  void lose_learner();
  void send_orders(replay_orders& orders);
  void send_completions(const std::vector<completion_order>& orders);
  void send_to_ranks(const replay_orders& orders);

  head_facts facts_;
  worker_book workers_;
  replay& memory_;
  run_observer& observer_;
  role_board& roles_;
  std::vector<head_effect> effects_;
  bool advancing_ = false;
  bool ended_ = false;
};

}  // namespace quern::actors
