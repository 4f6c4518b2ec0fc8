// Which judge does what of a list of candidates.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace quern::tools {

/// Hands out the work. A judge stays with a task while it lasts, since what a task needs (inputs,
/// expected outputs) is made once a judge; then it takes the task that has most left, alone where
/// it can. It claims more than it does next, so that its compilers work ahead; whoever has nothing
/// else to do does what another one holds. Thread-safe.
class work_list {
 public:
  /// `task_of[i]`: the task of item i, any number. `workers` >= 1.
  work_list(std::span<const std::size_t> task_of, std::size_t workers);

  /// Gives a worker items that nobody else has, until it holds `most`. Near the end it gets fewer,
  /// so that the compilers of all have something to do. Result: those it did not hold before.
  /// worker < workers.
  std::vector<std::size_t> claim(std::size_t worker, std::size_t most);
  /// What the worker does next of what it holds: the first in the order claimed that `is_ready`
  /// says yes to, else the first. Where it holds nothing and nobody can claim anything, it gets
  /// what the one would do next that holds most. None: nobody holds any, or there is something to
  /// claim.
  std::optional<std::size_t> next(std::size_t worker,
                                  const std::function<bool(std::size_t)>& is_ready = {});

  /// Takes back what a worker holds and will not do.
  void give_back(std::size_t worker);
  /// The same for one that it had next and that is to come behind all others, by claim_put_off.
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
  std::vector<std::size_t> at_;                ///< pile of each worker; piles_.size(): none
  std::vector<std::deque<std::size_t>> held_;  ///< of each worker
  std::size_t left_ = 0;                       ///< in the piles
  std::deque<std::size_t> put_off_;
};

}  // namespace quern::tools
