// Judges a list of candidates on all devices: a thread a judge, compilers ahead of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

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
  std::size_t left_ = 0;
};

struct bench_run_options {
  int compilers = 1;  ///< threads that compile ahead, for each judge; 0: none
  int tries = 3;      ///< evaluations of a candidate whose verdict says nothing about it
  /// A judge that fails this many candidates in a row (infra_error) is given up; one whose device
  /// is in trouble (candidate_judge::trouble) at once, and what failed with it is judged by
  /// another.
  int patience = 3;
};

/// Whether a verdict is worth keeping: infra_error and invalid_reference are about the host and the
/// task, and a later run, on a host that is well, asks again.
bool is_final(env::verdict_kind kind);

/// Judges requests[i] for each i of `items`, each once, and calls `done` for each verdict, from one
/// thread at a time. Ends early once `stop` is set or `done` returns false; what is being judged
/// then is finished and told. Returns what judges that were given up had said; empty: none was.
/// Fewer verdicts than items are told only after a stop or where a judge was given up. Requests and
/// judges outlive the call; a judge is used by one thread (compile_ahead: by several).
std::vector<std::string> run_bench(
    std::span<env::candidate_judge* const> judges,
    std::span<const env::evaluation_request> requests, std::span<const std::size_t> items,
    const bench_run_options& options, const std::atomic<bool>& stop,
    const std::function<bool(std::size_t item, const env::verdict&)>& done);

}  // namespace quern::tools
