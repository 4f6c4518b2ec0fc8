// How many samples wait at each stage of the loop.
#pragma once

#include <cstdint>

#include "base/json.hpp"

namespace quern::actors {

/// Live samples by what they wait for; they add up to those in flight that no step uses yet.
struct queue_depths {
  std::int64_t tokens = 0;         ///< a generator has them, or will get them
  std::int64_t room = 0;           ///< generated; the dispatcher has no room for them yet
  std::int64_t verdict = 0;        ///< with the dispatcher or an evaluator
  std::int64_t group = 0;          ///< judged; others of their group are not
  std::int64_t step = 0;           ///< in complete groups
  std::int64_t seed_variants = 0;  ///< no samples: kernels of future prompts that are being timed
  bool operator==(const queue_depths&) const = default;
};

/// The value of key `queues` in metrics.jsonl.
inline base::ordered_json to_json(const queue_depths& queues) {
  return {{"tokens", queues.tokens},   {"room", queues.room},
          {"verdict", queues.verdict}, {"group", queues.group},
          {"step", queues.step},       {"seed_variants", queues.seed_variants}};
}

}  // namespace quern::actors
