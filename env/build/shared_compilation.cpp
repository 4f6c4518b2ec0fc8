// Compilations that are shared by all who ask for them.
#include "env/build/shared_compilation.hpp"

namespace quern::env {
namespace {

constexpr std::size_t most_refused = 64;

}  // namespace

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
  if (result && result->outcome != compile_result::kind::built) {
    refused_.emplace_back(key, *result);
    if (refused_.size() > most_refused) refused_.pop_front();
  }
  return result;
}

}  // namespace quern::env
