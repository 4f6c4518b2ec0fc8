// Candidates' processes that wait for their turns.
#include "env/lanes/cpp/started_processes.hpp"

#include <algorithm>

namespace quern::env {
namespace {

constexpr std::size_t most_ready = 3;

}  // namespace

void started_processes::put(const std::filesystem::path& artefact,
                            std::unique_ptr<candidate_process> process) {
  // Ends outside the lock: a child's end is waited for.
  waiting oldest;
  const std::lock_guard lock(guard_);
  ready_.push_back({artefact, std::move(process), clock_.now_ns()});
  if (ready_.size() <= most_ready) return;
  oldest = std::move(ready_.front());
  ready_.pop_front();
}

std::unique_ptr<candidate_process> started_processes::take(const std::filesystem::path& artefact) {
  const std::lock_guard lock(guard_);
  const auto at = std::find_if(ready_.begin(), ready_.end(),
                               [&](const waiting& one) { return one.artefact == artefact; });
  if (at == ready_.end()) return nullptr;
  auto process = std::move(at->process);
  const auto waited_s = static_cast<double>(clock_.now_ns() - at->since) * 1e-9;
  ready_.erase(at);
  return waited_s < candidate_wall_s / 4 ? std::move(process) : nullptr;
}

}  // namespace quern::env
