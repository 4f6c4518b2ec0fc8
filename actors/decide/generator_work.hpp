// What generators did beside sampling: how full their cache was, and what new weights cost them.
#pragma once

#include <cstdint>
#include <utility>

#include "actors/wire.hpp"
#include "base/json.hpp"

namespace quern::actors {

/// Sums since a generator's hello, or differences of such.
struct generator_work {
  std::int64_t preemptions = 0;  ///< sequences that gave their pages back to be computed again
  /// Over all passes: pages of the KV cache (where it has none, slots) that sequences held, and how
  /// many there are.
  std::int64_t cache_held = 0, cache_room = 0;
  std::int64_t installs = 0;    ///< of new weights
  std::int64_t install_ns = 0;  ///< for which they kept the generator from sampling

  generator_work& operator+=(const generator_work& more) {
    preemptions += more.preemptions;
    cache_held += more.cache_held;
    cache_room += more.cache_room;
    installs += more.installs;
    install_ns += more.install_ns;
    return *this;
  }
  bool operator==(const generator_work&) const = default;
};
QUERN_MESSAGE(generator_work, preemptions, cache_held, cache_room, installs, install_ns)

/// What is new in `now` since `before`, which becomes `now`.
inline generator_work news_of(const generator_work& now, generator_work& before) {
  const generator_work last = std::exchange(before, now);
  return {now.preemptions - last.preemptions, now.cache_held - last.cache_held,
          now.cache_room - last.cache_room, now.installs - last.installs,
          now.install_ns - last.install_ns};
}

/// The value of key `generator` in metrics.jsonl: `kv_use` (share, mean over passes),
/// `preemptions`, `installs`, `install_s` (mean of one). What is the mean of nothing is null.
inline base::ordered_json to_json(const generator_work& work) {
  base::ordered_json use = nullptr, seconds = nullptr;
  if (work.cache_room > 0)
    use = static_cast<double>(work.cache_held) / static_cast<double>(work.cache_room);
  if (work.installs > 0)
    seconds = static_cast<double>(work.install_ns) / 1e9 / static_cast<double>(work.installs);
  return {{"kv_use", use},
          {"preemptions", work.preemptions},
          {"installs", work.installs},
          {"install_s", seconds}};
}

}  // namespace quern::actors
