// Models of the processes around control. Hosts speak through the production class
// `env::host_session`; generators and learner do what their contracts say.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/decide/copy_book.hpp"
#include "actors/messages.hpp"
#include "env/device/device_quarantine.hpp"
#include "env/plugin/host_session.hpp"
#include "env/verdict/verdict.hpp"
#include "tools/sim/events.hpp"
#include "tools/sim/oracle.hpp"
#include "tools/sim/world.hpp"

namespace quern::sim {

/// A process that can die: what was planned for an earlier life of it does not happen.
class process {
 public:
  process(event_queue& events, oracle& truth, const scenario& plan)
      : events_(events), truth_(truth), plan_(plan) {}
  [[nodiscard]] bool alive() const { return alive_; }
  /// Which process at this place: what an earlier one said may still be on its way.
  [[nodiscard]] std::int64_t life() const { return life_; }
  void die() {
    alive_ = false;
    ++life_;
  }

 protected:
  void later(nanoseconds_t delay, std::function<void()> what) {
    events_.in(delay, [this, life = life_, what = std::move(what)] {
      if (alive_ && life == life_) what();
    });
  }

  event_queue& events_;
  oracle& truth_;
  const scenario& plan_;
  bool alive_ = false;
  std::int64_t life_ = 0;
};

/// A group with the version that each of its samples must be made by (deterministic mode).
struct generation_request {
  actors::generate_group group;
  weights_version version = 0;
};

class generator_model : public process {
 public:
  using process::process;
  std::function<void()> on_hello;
  std::function<void(actors::generated_sample)> on_sample;
  std::function<void(actors::weights_installed)> on_installed;
  std::function<void(actors::generation_credit)> on_credit;

  void start();
  void stop();
  void welcomed(const actors::welcome& from);
  /// New weights: announced now, in force between two tokens.
  void install(const actors::weights_ready& fresh);
  void ask(const generation_request& request);

 private:
  struct wanted_sample {
    sample_id sample = 0;
    weights_version version = 0;
    bool last = false;  ///< of its group
  };
  void next_sample();
  void next_tokens();
  void finish_sample();
  void swap_in();

  incarnation_id incarnation_ = -1;
  std::int64_t granted_ = 0;
  weights_ptr current_, announced_;
  std::deque<wanted_sample> queue_;
  std::optional<wanted_sample> now_;
  made_tokens making_;
};

class learner_model : public process {
 public:
  using process::process;
  std::function<void()> on_hello;
  std::function<void(actors::learner_ready)> on_ready;
  std::function<void(actors::step_done)> on_step;
  std::function<void(actors::weights_ready)> on_offered;
  std::function<void(actors::checkpoint_saved)> on_saved;

  void start();
  void stop();
  /// It lives, keeps its connections and answers no load, step or checkpoint any more. Weights it
  /// still offers: that is no work that ranks do together.
  void hang() { hangs_ = true; }
  void welcomed(const actors::welcome& from);
  void train(const actors::train_batch& batch);
  /// Offers the newest weights, where the step could not.
  void offer(const actors::offer_weights& order);
  /// Writes a checkpoint of what it holds now.
  void save(const actors::save_checkpoint& order);
  [[nodiscard]] const weights_ptr& holds() const { return current_; }
  [[nodiscard]] incarnation_id incarnation() const { return incarnation_; }

 private:
  void check(const actors::train_batch& batch);
  void check_sample(const actors::training_sample& sample);
  void make_step(const actors::train_batch& batch);
  [[nodiscard]] bool offers_newest() const;
  [[nodiscard]] actors::weights_ready newest() const;
  bool publish();
  void read_copy();
  void watch_for_offer();

  incarnation_id incarnation_ = -1;
  weights_ptr current_;
  actors::copy_book copies_{0};
  bool busy_ = false;
  bool hangs_ = false;
  std::int64_t offers_asked_ = 0;
};

/// What the tests of a sample come to: a function of its tokens, so that it does not depend on
/// which host is asked and how often; noise and failures come on top, by attempt.
env::verdict_kind true_verdict(const base::hash128& source);

class host_model : public process {
 public:
  host_model(event_queue& events, oracle& truth, const scenario& plan, int number)
      : process(events, truth, plan), number_(number) {}
  std::function<void(env::message)> on_frame;

  void start();
  void receive(const env::message& what);
  /// Stopped by a signal: nothing is sent or read until it goes on.
  void freeze(nanoseconds_t duration);
  /// Fails at every job until then.
  void break_until(nanoseconds_t end) { broken_until_ = end; }
  [[nodiscard]] int number() const { return number_; }

 private:
  void carry_out(env::host_actions actions);
  void work(const env::host_job& job);
  void beat();
  void finish(const env::job_message& job, bool failed, const std::string& text);
  void look_at_device();
  [[nodiscard]] bool frozen() const { return events_.now() < frozen_until_; }

  int number_;
  std::optional<env::host_session> session_;
  std::deque<env::message> inbox_;
  nanoseconds_t frozen_until_ = 0, broken_until_ = 0;
  env::device_quarantine device_;
  bool told_out_ = false;
};

}  // namespace quern::sim
