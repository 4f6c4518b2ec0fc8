// Work ahead of a candidate's turn.
#include "env/judge/ahead.hpp"

#include <algorithm>

namespace quern::env {
namespace {

constexpr std::size_t most_ready = 3;
constexpr std::size_t most_refused = 64;

}  // namespace

base::expected<compile_result> shared_compilation::compile(compiler& with,
                                                           const compile_request& request) {
  return once(with.key_of(request), [&] { return with.compile(request); });
}

base::expected<compile_result> shared_compilation::once(
    const base::hash128& key, const std::function<base::expected<compile_result>()>& make) {
  std::promise<base::expected<compile_result>> promise;
  {
    std::unique_lock lock(guard_);
    if (const auto at = flying_.find(key); at != flying_.end()) {
      const answer shared = at->second;
      lock.unlock();
      return shared.get();
    }
    for (const auto& [refused, how] : refused_)
      if (refused == key) return how;
    flying_.emplace(key, promise.get_future().share());
  }
  auto result = make();
  promise.set_value(result);
  const std::lock_guard lock(guard_);
  flying_.erase(key);
  if (result && result->what != compile_result::kind::built) {
    refused_.emplace_back(key, *result);
    if (refused_.size() > most_refused) refused_.pop_front();
  }
  return result;
}

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
