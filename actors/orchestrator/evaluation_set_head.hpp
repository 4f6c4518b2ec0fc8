// The orchestrator that compares weights: one side of an evaluation set is asked, and nothing is
// learnt, written to the ledger or archived.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "actors/orchestrator/evaluation_set.hpp"
#include "actors/orchestrator/head_policy.hpp"
#include "actors/orchestrator/rollout.hpp"

namespace quern::actors {

/// One side of an evaluation set.
struct evaluation_set_side_setup {
  evaluation_set_side side = evaluation_set_side::first;
  std::string model;  ///< folder of the weights that are asked
  std::string config_yaml;
  std::string weights_folder;
  rollout_facts rollout;
  /// Is told, first of none and then after each, how many of all kernels that prompts show are
  /// timed; not where there are none to time.
  std::function<void(std::size_t timed, std::size_t all)> timing = [](std::size_t, std::size_t) {};
  /// Is told, after each answer, how many of this side are there.
  std::function<void(std::size_t answered)> progress = [](std::size_t) {};
};

/// Times the kernels that prompts show (first side only), asks every question of whichever
/// generator has room, has the answers judged, and ends when all are. What a lost generator had not
/// answered is asked again, with the same random numbers; the first completion of a question
/// counts.
class evaluation_set_head final : public head_policy {
 public:
  /// `questions` outlives it.
  evaluation_set_head(evaluation_set_side_setup setup, evaluation_set& questions,
                      worker_book workers);

  learner_policy* learner() override { return nullptr; }
  welcome generator_came(worker_id who, const std::string& place) override;
  void worker_gone(worker_id who) override;
  void on_credit(worker_id from, const generation_credit& credit) override;
  void on_installed(worker_id from, const weights_installed& now) override;
  void on_generated(worker_id from, const generated_sample& sample) override;
  void on_verdict(const sample_verdict& verdict) override;
  /// The dispatcher is never told to drain: an unfinished evaluation set is made anew.
  void on_withdrawn(const jobs_withdrawn& /*news*/) override {}
  void on_drain(const drain& order) override;
  void on_problem(const fatal_problem& problem) override;
  void advance() override;
  void look() override {}

 private:
  void fail(const std::string& message) { end_with(fatal_problem{"evaluation_set", message}); }
  void fix_questions();
  void ask();
  void on_seed_variant(const sample_verdict& verdict, const env::verdict& value);

  evaluation_set_side_setup setup_;
  evaluation_set& questions_;
  worker_book workers_;
  std::size_t seed_variants_ = 0;
  std::size_t seed_variants_left_ = 0;
  std::deque<generate_group> to_ask_;
  std::map<sample_id, generate_group> asked_;  ///< and not answered yet
  std::map<sample_id, std::string> sources_;
  std::size_t answered_ = 0;
};

}  // namespace quern::actors
