// Which core measures: chosen once, and held by one evaluator at a time while it measures.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sched.h>

#include "base/file.hpp"
#include "base/measuring_cores.hpp"
#include "base/status.hpp"

namespace quern::env {

/// The cores that this process may run on, ascending.
base::expected<std::vector<int>> allowed_cores();

/// `core` may be asked for: -1 (any) or one of allowed_cores. Error: invalid_argument, naming them.
base::status check_core(std::int64_t core);

/// Lets the first thread of a process, or for 0 the calling thread, run on this core alone. Whether
/// the kernel allowed it: the process is there, and is this user's unless this one is root's.
bool pin_to(int process, int core);

/// How many cores more than one an evaluator takes that wants `wanted`: as many, if eight or more
/// are allowed to it, and half of these are owned by nobody when it has them; else 0.
std::size_t spare_cores(std::size_t allowed, std::size_t free, std::size_t wanted);

/// Ownership of cores among the evaluators of this host, by flock on files (host_lock.hpp). Two
/// evaluators take different cores where there are enough; where there are not, they share one and
/// measure in turns. While a choice lives, this process keeps other work off its cores: children
/// that are started without a core, warm Pythons, and threads with base::off_measuring_cores.
class core_choice {
 public:
  /// `core` >= 0: that one alone, if this process may run on it (see check_core). -1: the highest
  /// allowed core that no other evaluator owns; the highest allowed one where all are owned.
  /// `spare`: so many more are wanted (spare_cores()).
  static base::expected<core_choice> choose(int core, std::size_t spare = 0);
  /// Of one that was chosen. Who measures there takes a core_lease.
  [[nodiscard]] int core() const { return cores_.front(); }
  /// It, and behind it the spare ones.
  [[nodiscard]] std::span<const int> cores() const { return cores_; }

 private:
  /// `owner`: the lock of that core, or none where it is another evaluator's.
  void own(int core, base::unique_fd owner);
  base::status own_spare(const std::vector<int>& allowed, std::size_t spare);

  std::vector<int> cores_;
  std::vector<base::unique_fd> owners_;
  std::vector<base::measuring_core> marks_;
};

/// Lets a process come before others on its core, where the host allows it (root); otherwise
/// nothing happens. Where the kernel shares processors out by session (sched(7), autogroup), before
/// the others of its session, which sandboxed children are in. For runners while they are timed.
void come_first(int pid);

/// come_first() until destroyed, if the process is there as long.
class coming_first {
 public:
  /// 0: the calling thread, which also destroys it.
  explicit coming_first(int pid);
  coming_first(const coming_first&) = delete;
  coming_first& operator=(const coming_first&) = delete;
  ~coming_first();

 private:
  int pid_, nice_before_;
};

/// Takes the calling thread off the cores on which this process measures, and calls come_first()
/// for it, until destroyed, by the same thread. For one that waits for a process that times itself.
/// One that takes the time takes a core_lease.
class watching_thread {
  base::off_measuring_cores beside_;
  coming_first first_{0};
};

/// Exclusive use of a core and the calling thread pinned to it, until destroyed. The thread is
/// pinned as well because it reads the clock: on a busy core it would be woken late, on the core of
/// the runner that has just gone to sleep it is woken at once. Where the host allows it, it also
/// comes before others on that core.
class core_lease {
 public:
  /// Waits for other evaluators, at most `seconds`.
  static base::expected<core_lease> take(int core, double seconds);
  core_lease(core_lease&& other) noexcept;
  core_lease& operator=(core_lease&&) = delete;
  ~core_lease();

 private:
  core_lease() = default;
  base::unique_fd busy_;
  cpu_set_t before_{};
  bool taken_ = false, pinned_ = false;
  int nice_before_ = 0;
};

}  // namespace quern::env
