// What the orchestrator is made for, behind one interface. Each message of a generator, of the
// learner, of the dispatcher or of the supervisor is a call. What follows from it is a list of
// effects. Policies are training and search (run_head) and the comparison of weights
// (evaluation_set_head). The orchestrator actor and the simulation (tools/sim) carry the effects
// out.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/decide/worker_book.hpp"
#include "actors/messages.hpp"

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
struct forget_rendezvous_place {};
/// `advance` is to be called after the messages that have already come.
struct advance_later {};

using head_effect = std::variant<to_generator, to_learner, to_dispatch, to_supervisor, send_away,
                                 forget_rendezvous_place, advance_later>;

/// Of a policy that has a learner. Only messages of ranks that were let in may be given to it.
class learner_policy {
 public:
  virtual ~learner_policy() = default;
  /// A rank was let in. It may end an incarnation; `learner_welcome` is asked for after it.
  virtual void rank_came(worker_id who, std::int32_t rank) = 0;
  /// `place`: where groups meet.
  [[nodiscard]] virtual welcome learner_welcome(const std::string& place) const = 0;
  virtual void on_ready(const learner_ready& ready) = 0;
  virtual void on_step(const step_done& step) = 0;
  /// The learner offers weights after their step.
  virtual void on_offered(const weights_ready& offered) = 0;
  virtual void on_checkpoint(const checkpoint_saved& saved) = 0;
};

/// Only messages of workers that were let in may be given to it: `worker_id` 0 is a sender that is
/// no worker. After each call, and once before the first, the owner takes the effects and carries
/// them out in their order. An error of any part is an effect, too: `fatal_problem`, once. Not
/// thread-safe.
class head_policy {
 public:
  virtual ~head_policy() = default;

  /// What is to be done since the last call, in order.
  std::vector<head_effect> take_effects() { return std::exchange(effects_, {}); }
  /// Null: the run has no learner, and none is let in.
  virtual learner_policy* learner() = 0;

  // ---- workers that come and go ----
  /// A generator was let in. What it is welcomed with; `place`: where groups meet.
  virtual welcome generator_came(worker_id who, const std::string& place) = 0;
  /// The worker is gone, whatever it was.
  virtual void worker_gone(worker_id who) = 0;

  // ---- messages of generators; `from`: who sent it ----
  virtual void on_credit(worker_id from, const generation_credit& credit) = 0;
  virtual void on_installed(worker_id from, const weights_installed& now) = 0;
  virtual void on_generated(worker_id from, const generated_sample& sample) = 0;

  // ---- messages of control's own actors ----
  virtual void on_verdict(const sample_verdict& verdict) = 0;
  virtual void on_withdrawn(const jobs_withdrawn& news) = 0;
  virtual void on_drain(const drain& order) = 0;
  virtual void on_problem(const fatal_problem& problem) = 0;

  /// What `advance_later` asks for: acts upon all that has come since, with one commit.
  virtual void advance() = 0;
  /// Once each look interval.
  virtual void look() = 0;

  /// The run is over: `drained` or `fatal_problem` is among the effects that were given out.
  [[nodiscard]] bool ended() const { return ended_; }

 protected:
  /// Not inlined: g++ 12 takes the unused alternatives of a moved variant for uninitialised values.
  template <class Effect>
  [[gnu::noinline]] void effect(Effect one) {
    effects_.emplace_back(std::move(one));
  }
  /// The last effect: `drained` or `fatal_problem`. Later ones are left out.
  template <class Last>
  void end_with(Last last) {
    if (std::exchange(ended_, true)) return;
    effect(to_supervisor{std::move(last)});
  }

 private:
  std::vector<head_effect> effects_;
  bool ended_ = false;
};

}  // namespace quern::actors
