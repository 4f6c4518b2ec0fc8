// Finds a core that nobody shares.
#include "env/judge/calm_core.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <sched.h>

#include "env/judge/core_pace.hpp"

namespace quern::env {
namespace {

/// The calling thread where `process` is 0.
bool move_to(int process, int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<std::size_t>(core), &only);
  return sched_setaffinity(process, sizeof only, &only) == 0;
}

}  // namespace

bool is_core_shared() {
  // An interrupt makes one of them longer.
  std::array<base::nanoseconds_t, 3> paces{};
  std::ranges::generate(paces, core_pace_ns);
  return shared_part(paces) > 0.5;
}

calm_core::calm_core(std::span<const int> cores, std::vector<int> processes,
                     std::function<bool()> is_shared)
    : cores_(cores), processes_(std::move(processes)), is_shared_(std::move(is_shared)) {}

calm_core::~calm_core() {
  if (at_ == 0) return;
  move_processes(cores_.front());
  move_to(0, cores_.front());
}

/// A process of another user stays where it is, unless this one is root's: times are less even
/// then.
void calm_core::move_processes(int core) const {
  for (const int process : processes_)
    (void)move_to(process, core);
}

void calm_core::settle() {
  if (cores_.size() < 2 || !is_shared_()) return;
  for (std::size_t step = 1; step < cores_.size(); ++step) {
    const std::size_t next = (at_ + step) % cores_.size();
    if (!move_to(0, cores_[next]) || is_shared_()) continue;
    move_processes(cores_[next]);
    at_ = next;
    return;
  }
  move_to(0, core());
}

bool calm_pairs::mostly_calm() const {
  const auto calm = static_cast<std::size_t>(std::ranges::count(calm_, true));
  return 2 * calm > calm_.size();
}

void calm_pairs::saw(double shared) {
  if (calm_.size() == looked_at) calm_.erase(calm_.begin());
  calm_.push_back(shared <= most_shared);
}

}  // namespace quern::env
