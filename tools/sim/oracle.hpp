// What is true in the simulated world, kept apart from everything that control believes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/decide/ids.hpp"

namespace quern::sim {

using actors::epoch_id;
using actors::sample_id;
using actors::segment;
using actors::weights_version;

/// Weights are the list of what was trained into them: a chain of steps, shared by all who hold it.
struct weights {
  weights_version version = 0;
  base::hash128 hash;
  std::shared_ptr<const weights> before;
  std::vector<sample_id> step;  ///< samples of the step that made this version

  static std::shared_ptr<const weights> initial();
  static std::shared_ptr<const weights> after(std::shared_ptr<const weights> from,
                                              const base::hash128& content,
                                              std::vector<sample_id> step);
  /// This one or one that it came from; null if the version is newer.
  [[nodiscard]] const weights* at(weights_version v) const;
};
using weights_ptr = std::shared_ptr<const weights>;

/// Tokens as a generator really made them.
struct made_tokens {
  sample_id sample = 0;
  std::int64_t tokens = 0;
  std::vector<segment> segments;
};

struct oracle {
  std::map<base::hash128, made_tokens> made;           ///< by content
  std::map<base::hash128, weights_ptr> all_weights;    ///< by hash
  std::map<weights_version, weights_ptr> checkpoints;  ///< on disk
  /// What generators can have: what an epoch begins with, and what the learner wrote into a copy.
  std::set<std::pair<epoch_id, base::hash128>> offered;
  std::int64_t not_offered = 0;    ///< steps
  std::set<std::uint64_t> leases;  ///< every lease that was ever given
  std::int64_t oldest_age = 0;     ///< at which a token was trained on
  std::int64_t masked = 0;         ///< tokens
  std::int64_t left_out = 0;       ///< steps whose gradient was not finite
  std::int64_t sick_until_ns = 0;  ///< no host can judge anything before
  std::string violation;           ///< the first one

  void violated(std::string what) {
    if (violation.empty()) violation = std::move(what);
  }
};

/// What control asks the learner to train on.
struct step_request {
  epoch_id epoch = 0;
  weights_version from = 0;
  std::int64_t number = 0;
  struct member {
    sample_id sample;
    base::hash128 tokens;
    std::int64_t masked;
  };
  std::vector<std::vector<member>> groups;
};

}  // namespace quern::sim
