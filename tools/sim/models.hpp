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

struct generation_request {
  epoch_id epoch = 0;
  sample_id sample = 0;
  weights_version version = 0;  ///< deterministic: exactly this one
};
struct generated_sample {
  epoch_id epoch = 0;
  sample_id sample = 0;
  std::int64_t tokens = 0;
  std::vector<segment> segments;
  base::hash128 content;
};

class generator_model : public process {
 public:
  using process::process;
  std::function<void(generated_sample)> on_sample;
  std::function<void(std::int64_t incarnation, epoch_id, base::hash128)> on_installed;

  void start() { alive_ = true; }
  void die_now();
  /// Which process at this place: what an earlier one said may still be on its way.
  [[nodiscard]] std::int64_t incarnation() const { return incarnation_; }
  /// New weights: announced now, in force between two tokens.
  void install(epoch_id epoch, const weights_ptr& fresh);
  void ask(const generation_request& request);

 private:
  void next_sample();
  void next_tokens();
  void swap_in();

  epoch_id epoch_ = -1;
  std::int64_t incarnation_ = 0;
  weights_ptr current_, announced_;
  std::deque<generation_request> queue_;
  std::optional<generation_request> now_;
  made_tokens making_;
};

class learner_model : public process {
 public:
  using process::process;
  std::function<void(const step_request& of, const weights_ptr& made, bool left_out, bool offered)>
      on_step;
  std::function<void(epoch_id, const weights_ptr&)> on_offered;
  std::function<void(epoch_id, weights_version, base::hash128)> on_saved;

  void start(epoch_id epoch, weights_ptr from);
  void train(const step_request& request);
  /// Offers the newest weights, where the step could not.
  void offer(epoch_id epoch);
  /// Writes a checkpoint of what it holds now.
  void save(epoch_id epoch);
  [[nodiscard]] const weights_ptr& holds() const { return current_; }
  [[nodiscard]] epoch_id epoch() const { return epoch_; }

 private:
  void check(const step_request& request);
  [[nodiscard]] bool offers_newest() const;
  bool publish();
  void read_copy();

  epoch_id epoch_ = -1;
  weights_ptr current_;
  actors::copy_book copies_{0};
  bool busy_ = false;
};

/// What the tests of a sample come to: a function of its tokens, so that it does not depend on
/// which host is asked and how often; noise and failures come on top, by attempt.
env::verdict_kind true_verdict(const base::hash128& content);

class host_model : public process {
 public:
  host_model(event_queue& events, oracle& truth, const scenario& plan, int number)
      : process(events, truth, plan), number_(number) {}
  std::function<void(env::message)> on_frame;

  void start();
  void receive(const env::message& what);
  /// Stopped by a signal: nothing is sent or read until it goes on.
  void freeze(nanoseconds_t duration);
  [[nodiscard]] int number() const { return number_; }

 private:
  void carry_out(env::host_actions actions);
  void work(const env::host_job& job);
  void beat();
  [[nodiscard]] bool frozen() const { return events_.now() < frozen_until_; }

  int number_;
  std::optional<env::host_session> session_;
  std::deque<env::message> inbox_;
  nanoseconds_t frozen_until_ = 0;
  std::uint64_t jobs_session_ = 0;
};

}  // namespace quern::sim
