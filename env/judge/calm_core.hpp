// On which of its cores an evaluator measures at this moment, where other machines may use the same
// processor.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "env/judge/core_lock.hpp"

namespace quern::env {

/// Whether another hardware thread of the calling thread's core is busy now: two of three looks say
/// so (core_pace.hpp).
bool is_core_shared();

/// Moves a measurement among the cores of its evaluator to one that is not shared. The caller holds
/// a core_lease of the first of them, on which it begins and ends. One thread, the one that
/// measures.
class calm_core {
 public:
  /// `cores`: at least one; outlives it. `processes`: their first threads, which make the calls, go
  /// where this thread goes, at first to the first core. `is_shared`: of the calling thread's core,
  /// now; asked on each core once at first.
  calm_core(std::span<const int> cores, std::vector<int> processes,
            std::function<bool()> is_shared = is_core_shared);
  calm_core(const calm_core&) = delete;
  calm_core& operator=(const calm_core&) = delete;
  ~calm_core();

  /// Stays where it is unless that core is shared and another one is not, which nobody else
  /// measures on. Where a process cannot be moved (it ended, or is another user's) all go to the
  /// first core, for good. Takes three looks, and up to some 100 us for each core that it goes to.
  void settle();
  [[nodiscard]] int core() const { return cores_[at_]; }

 private:
  bool go_to(std::size_t place);
  void return_to_first();

  std::span<const int> cores_;
  std::vector<int> processes_;
  std::function<bool()> is_shared_;
  /// Of the core where it is, unless that is the first.
  std::optional<core_lease> spare_;
  std::size_t at_ = 0;
  bool stays_ = false;
};

}  // namespace quern::env
