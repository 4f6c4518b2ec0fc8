// On which of its cores an evaluator measures at this moment, and which pairs of windows count,
// where other machines may use the same processor.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace quern::env {

/// Whether another hardware thread of the calling thread's core is busy now, by three paces.
bool is_core_shared();

/// Moves a measurement among the cores of its evaluator to one that nobody shares. It has a
/// core_lease of the first of them, on which it begins and ends. One thread, the one that measures.
class calm_core {
 public:
  /// `cores`: at least one, all owned by this evaluator; outlives it. `processes`: go where the
  /// thread goes; one that has ended is left out. `is_shared`: of the calling thread's core, now.
  calm_core(std::span<const int> cores, std::vector<int> processes,
            std::function<bool()> is_shared = is_core_shared);
  calm_core(const calm_core&) = delete;
  calm_core& operator=(const calm_core&) = delete;
  ~calm_core();

  /// Stays where it is unless that core is shared now and another is not. Takes 6 us, and up to
  /// some 100 us for each other core that it looks at.
  void settle();
  [[nodiscard]] int core() const { return cores_[at_]; }

 private:
  void move_processes(int core) const;

  std::span<const int> cores_;
  std::vector<int> processes_;
  std::function<bool()> is_shared_;
  std::size_t at_ = 0;
};

/// Which pairs of windows count: those in which the core was its own, unless most of the last ones
/// were not. Then all count, since there are no better ones. It looks at paces alone, which neither
/// side can change. Plain class.
class calm_pairs {
 public:
  /// Whether a pair counts of whose paces this part was shared.
  [[nodiscard]] bool counts(double shared) const { return shared <= most_shared || !mostly_calm(); }
  /// A pair, whether it counts or not.
  void saw(double shared);

 private:
  /// Of the paces of a window.
  static constexpr double most_shared = 0.25;
  static constexpr std::size_t looked_at = 16;

  [[nodiscard]] bool mostly_calm() const;

  std::vector<bool> calm_;  ///< of the last pairs, at most looked_at
};

}  // namespace quern::env
