// Judges a list of candidates on all devices: a thread a judge, compilers ahead of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "env/judge/evaluator.hpp"

namespace quern::tools {

/// Hands out the work. A judge stays with a task while it lasts, since what a task needs (inputs,
/// expected outputs) is made once a judge; then it takes the task that has most left, alone where
/// it can. Thread-safe.
class work_list {
 public:
  /// `task_of[i]`: the task of item i, any number. `workers` >= 1.
  work_list(std::span<const std::size_t> task_of, std::size_t workers);

  /// Up to `most` items that nobody else has, fewer near the end so that all workers end at about
  /// the same time; empty: there are no more. worker < workers.
  std::vector<std::size_t> claim(std::size_t worker, std::size_t most);

  /// Takes back what a worker claimed and will not do.
  void give_back(std::span<const std::size_t> items);
  /// The same for one that is to come behind all others, by claim_put_off.
  void put_off(std::size_t item);
  std::optional<std::size_t> claim_put_off();
  /// Whether somebody could claim something now.
  bool any_left();

 private:
  struct pile {
    std::vector<std::size_t> items;  ///< in reverse
    std::size_t workers = 0;         ///< that are at it
  };
  std::size_t richest() const;

  std::mutex guard_;
  std::vector<std::size_t> task_of_;
  std::vector<pile> piles_;
  std::vector<std::size_t> at_;  ///< pile of each worker; piles_.size(): none
  std::size_t left_ = 0;         ///< in the piles
  std::deque<std::size_t> put_off_;
};

struct bench_run_options {
  int compilers = 1;  ///< threads that compile ahead, for each judge; 0: none
  int tries = 3;      ///< evaluations of a candidate whose verdict says nothing about it
  /// A judge that fails this many candidates in a row (infra_error) is given up; where each of them
  /// put its device into trouble (candidate_judge::trouble), which then got well, twice as many.
  int patience = 3;
  /// A candidate that put devices into trouble so often is left out (is_left_out). Trouble behind
  /// others' failures does not count: it may be the host's.
  int most_troubles = 2;
  /// A device in trouble is tried again (candidate_judge::recover) so often; meanwhile others do
  /// its work. One that is not well after `recover_within` is given up; 0: at once.
  base::nanoseconds_t recover_every = 1'000'000'000;
  base::nanoseconds_t recover_within = 600'000'000'000;
};

/// Judges requests[i] for each i of `items`, each once, and calls `done` for each verdict, from one
/// thread at a time. Ends early once `stop` is set or `done` returns false; what is being judged
/// then is finished and told. Returns what judges that were given up had said; empty: none was.
/// Fewer verdicts than items are told only after a stop or where every judge was given up. Requests
/// and judges outlive the call; a judge is used by one thread (compile_ahead: by several).
std::vector<std::string> run_bench(
    std::span<env::candidate_judge* const> judges,
    std::span<const env::evaluation_request> requests, std::span<const std::size_t> items,
    const bench_run_options& options, const std::atomic<bool>& stop,
    const std::function<bool(std::size_t item, const env::verdict&)>& done);

}  // namespace quern::tools
