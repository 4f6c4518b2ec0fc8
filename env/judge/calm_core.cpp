// Finds a core that nobody shares.
#include "env/judge/calm_core.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "env/judge/core_pace.hpp"

namespace quern::env {

bool is_core_shared() {
  // An interrupt makes one of them longer.
  std::array<base::nanoseconds_t, 3> looks{};
  std::ranges::generate(looks, core_pace_ns);
  return shared_looks(looks) >= 2;
}

calm_core::calm_core(std::span<const int> cores, std::vector<int> processes,
                     std::function<bool()> is_shared)
    : cores_(cores), processes_(std::move(processes)), is_shared_(std::move(is_shared)) {
  // A core that is always shared is told by another one that is not.
  for (std::size_t place = 1; place < cores_.size(); ++place)
    if (go_to(place)) (void)is_shared_();
  return_to_first();
}

calm_core::~calm_core() {
  return_to_first();
}

/// Whether this thread is there now. If not, it is on the first core.
bool calm_core::go_to(std::size_t place) {
  if (place == at_) return true;
  spare_.reset();
  at_ = 0;
  if (place == 0) return true;
  auto lease = core_lease::take(cores_[place], 0);
  if (!lease) return false;
  spare_.emplace(std::move(*lease));
  at_ = place;
  return true;
}

/// Whatever can be moved: a process may have ended.
void calm_core::return_to_first() {
  go_to(0);
  for (const int process : processes_)
    (void)pin_to(process, core());
}

void calm_core::settle() {
  if (stays_ || cores_.size() < 2 || !is_shared_()) return;
  const std::size_t from = at_;
  for (std::size_t step = 1; step < cores_.size(); ++step) {
    if (!go_to((from + step) % cores_.size()) || is_shared_()) continue;
    stays_ = !std::ranges::all_of(processes_, [&](int one) { return pin_to(one, core()); });
    if (stays_) return_to_first();
    return;
  }
  // Somebody may have taken that core meanwhile: then the first one, which is leased.
  if (!go_to(from)) return_to_first();
}

}  // namespace quern::env
