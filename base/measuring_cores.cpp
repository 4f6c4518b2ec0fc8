// Which cores measure.
#include "base/measuring_cores.hpp"

#include <mutex>
#include <set>
#include <utility>

namespace quern::base {
namespace {

struct registry {
  std::mutex mutex;
  std::multiset<int> cores;  // guarded by mutex
};

/// Not taken down at exit: threads may still ask.
registry& measuring() {
  static auto& one = *new registry;
  return one;
}

}  // namespace

measuring_core::measuring_core(int core) : core_(core) {
  auto& all = measuring();
  const std::lock_guard lock(all.mutex);
  all.cores.insert(core);
}

measuring_core::measuring_core(measuring_core&& other) noexcept
    : core_(std::exchange(other.core_, -1)) {}

measuring_core& measuring_core::operator=(measuring_core&& other) noexcept {
  std::swap(core_, other.core_);
  return *this;
}

measuring_core::~measuring_core() {
  if (core_ < 0) return;
  auto& all = measuring();
  const std::lock_guard lock(all.mutex);
  all.cores.erase(all.cores.find(core_));
}

std::optional<cpu_set_t> cores_beside_measuring() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return std::nullopt;
  auto& all = measuring();
  const std::lock_guard lock(all.mutex);
  if (all.cores.empty()) return std::nullopt;
  for (const int core : all.cores)
    CPU_CLR(static_cast<std::size_t>(core), &cores);
  if (CPU_COUNT(&cores) == 0) return std::nullopt;
  return cores;
}

off_measuring_cores::off_measuring_cores() {
  const auto beside = cores_beside_measuring();
  if (!beside) return;
  cpu_set_t before;
  CPU_ZERO(&before);
  if (sched_getaffinity(0, sizeof before, &before) != 0) return;
  if (sched_setaffinity(0, sizeof *beside, &*beside) == 0) before_ = before;
}

off_measuring_cores::~off_measuring_cores() {
  if (before_) sched_setaffinity(0, sizeof *before_, &*before_);
}

}  // namespace quern::base
