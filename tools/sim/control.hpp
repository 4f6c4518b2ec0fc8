// Control in the simulation: the orchestrator and the head of dispatch as they are, on a real
// run directory. What is here carries messages to them and their effects away, and lets the oracle
// look at both.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/orchestrator/dispatch_head.hpp"
#include "actors/orchestrator/run_head.hpp"
#include "storage/run_directory.hpp"
#include "tools/sim/gateway_model.hpp"
#include "tools/sim/models.hpp"
#include "tools/sim/run_files.hpp"

namespace quern::sim {

/// A process of the run, as control's connection to it.
struct worker_place {
  int generator = -1;  ///< -1: the learner
  std::int64_t life = 0;
  bool operator==(const worker_place&) const = default;
};

actors::evaluation_scheduler::limits scheduler_limits(const scenario& plan);

class control {
 public:
  struct wires {
    std::function<void(worker_place, actors::welcome)> welcome;
    std::function<void(worker_place, generation_request)> generate;
    std::function<void(worker_place, actors::weights_ready)> install;
    std::function<void(worker_place, actors::train_batch)> train;
    std::function<void(worker_place, actors::save_checkpoint)> save;
    std::function<void(worker_place, actors::offer_weights)> offer;
    std::function<void(worker_place)> end;
    std::function<void(int host, env::message)> to_host;
  };

  control(event_queue& events, oracle& truth, const scenario& plan, wires out);
  ~control();

  /// A new control process: opens the run, recovers, starts an incarnation.
  void boot();
  /// The process is gone; what it had not committed is, too.
  void die();
  [[nodiscard]] bool alive() const { return life_now_ != nullptr; }

  // ---- from processes of the run; one that is not known any more is left alone ----
  void on_hello(worker_place from);
  void on_down(worker_place from);
  void on_sample(worker_place from, const actors::generated_sample& sample);
  void on_installed(worker_place from, const actors::weights_installed& now);
  void on_credit(worker_place from, const actors::generation_credit& credit);
  void on_ready(worker_place from, const actors::learner_ready& ready);
  void on_step(worker_place from, const actors::step_done& step);
  void on_offered(worker_place from, const actors::weights_ready& offered);
  void on_saved(worker_place from, const actors::checkpoint_saved& saved);
  void on_host(int host, const env::message& what);
  /// Deadlines, silence, the looks of the head.
  void tick();

  /// `quern stop`.
  void drain();
  /// The head has said that the run is over.
  [[nodiscard]] bool drained() const { return truth_.run_over; }
  /// After it: the law, and what ledger and weights say of each other.
  void check_end(const weights_ptr& learned);
  [[nodiscard]] weights_version version() const;
  [[nodiscard]] const storage::ledger& ledger() const;
  [[nodiscard]] std::string standing() const;

 private:
  struct process_life;
  void carry_out();
  void tell_lineage();
  void carry_head(actors::head_effect& effect);
  void carry_dispatch(actors::dispatch_effect& effect);
  void give_dispatch(const actors::to_dispatch& effect);
  void give_head(const actors::to_run_head& effect);
  void hear_end(const actors::to_supervisor& effect);
  void send_generate(worker_place to, actors::generate_group& group);
  /// Calls back in this life, after what has already come.
  void soon(std::function<void()> what);
  [[nodiscard]] actors::worker_id number_of(worker_place from) const;
  void check_batch(const actors::train_batch& batch);
  void check_issue(actors::group_id group);
  void check_verdict(const actors::sample_verdict& verdict);
  void check_groups();
  template <class T>
  bool must(const base::expected<T>& result) {
    if (!result) truth_.violated("control: " + result.error().message);
    return result.has_value();
  }

  event_queue& events_;
  oracle& truth_;
  const scenario& plan_;
  wires out_;
  actors::run_config config_;
  base::temp_folder folder_;
  std::unique_ptr<process_life> life_now_;
  std::int64_t life_ = 0;
  std::int64_t ticks_ = 0;
  actors::group_id newest_group_ = 0;
  incarnation_id told_incarnation_ = 0;
};

}  // namespace quern::sim
