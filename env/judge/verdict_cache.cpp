// Verdicts of sources seen before.
#include "env/judge/verdict_cache.hpp"

#include "base/hash.hpp"
#include "base/random.hpp"

namespace quern::env {

std::string verdict_key::text() const {
  return base::to_hex(
      base::hasher().add(task).add(source).add(protocol).add(device_class).add(env).digest());
}

const cached_verdict* verdict_cache::find(const verdict_key& key) {
  const auto at = index_.find(key.text());
  if (at == index_.end()) return nullptr;
  order_.splice(order_.begin(), order_, at->second);
  return &order_.front().second;
}

void verdict_cache::store(const verdict_key& key, cached_verdict value) {
  const std::string text = key.text();
  const auto at = index_.find(text);
  if (!is_cacheable(value.kept_verdict.kind)) {
    if (at != index_.end() && value.kept_verdict.kind == verdict_kind::unconfirmed) {
      order_.erase(at->second);
      index_.erase(at);
    }
    return;
  }
  if (value.runs.size() > max_runs)
    value.runs.erase(value.runs.begin(), value.runs.end() - static_cast<std::ptrdiff_t>(max_runs));
  if (at != index_.end()) {
    order_.erase(at->second);
    index_.erase(at);
  }
  order_.emplace_front(text, std::move(value));
  index_[text] = order_.begin();
  while (order_.size() > limit_) {
    index_.erase(order_.back().first);
    order_.pop_back();
  }
}

bool measure_again(const verdict& cached, const verdict_key& key, std::uint64_t seed, double p) {
  if (cached.kind != verdict_kind::ok || !cached.time) return false;
  const auto hash = base::hasher().add(key.text()).digest();
  return base::random_stream(seed, "measure again", {hash.high, hash.low}).chance(p);
}

}  // namespace quern::env
