// Everything that the orchestrator that trains or searches decides, without actors. The
// orchestrator actor and the simulation (tools/sim) own one each and carry its effects out.
#pragma once

#include <cstdint>
#include <string>

#include "actors/decide/role_board.hpp"
#include "actors/orchestrator/head_policy.hpp"
#include "actors/orchestrator/orchestrator.hpp"
#include "actors/orchestrator/rollout.hpp"
#include "actors/orchestrator/run_observer.hpp"

namespace quern::actors {

/// What welcomes and verdicts carry of a run's set-up.
struct head_facts {
  std::string config_yaml;
  std::string weights_folder;
  rollout_facts rollout;
  bool spread = false;  ///< roles are on several hosts: groups meet where rank 0 says
  std::int64_t ranks = 1;
};

/// As head_policy says. An error of the memory ends the run.
class run_head final : public head_policy, public learner_policy {
 public:
  /// `memory`, `observer` and `roles` outlive it.
  run_head(head_facts facts, worker_book workers, orchestrator& memory, run_observer& observer,
           role_board& roles);

  learner_policy* learner() override { return this; }
  welcome generator_came(worker_id who, const std::string& place) override;
  void rank_came(worker_id who, std::int32_t rank) override;
  [[nodiscard]] welcome learner_welcome(const std::string& place) const override;
  void worker_gone(worker_id who) override;

  void on_credit(worker_id from, const generation_credit& credit) override;
  void on_installed(worker_id from, const weights_installed& now) override;
  void on_generated(worker_id from, const generated_sample& sample) override;
  void on_ready(const learner_ready& ready) override;
  void on_step(const step_done& step) override;
  void on_offered(const weights_ready& offered) override;
  void on_checkpoint(const checkpoint_saved& saved) override;

  void on_verdict(const sample_verdict& verdict) override;
  void on_withdrawn(const jobs_withdrawn& news) override;
  void on_drain(const drain& order) override;
  void on_problem(const fatal_problem& problem) override;

  void advance() override;
  /// A learner that hangs is treated as one that died, weights that could not be offered are asked
  /// for.
  void look() override;

  [[nodiscard]] const orchestrator& memory() const { return memory_; }

 private:
  void fail_run(std::string message);
  void advance_soon();
  /// Takes an event's status; every error of the memory is fatal.
  void settle(const base::status& result);
  [[nodiscard]] welcome greet(const std::string& place) const;
  void open_links();
  void announce(const weights_ready& weights);
  void lose_learner();
  void send_orders(orchestrator_orders& orders);
  void send_completions(const std::vector<completion_order>& orders);
  void send_to_ranks(const orchestrator_orders& orders);

  head_facts facts_;
  worker_book workers_;
  orchestrator& memory_;
  run_observer& observer_;
  role_board& roles_;
  bool advancing_ = false;
};

}  // namespace quern::actors
