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

using actors::incarnation_id;
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
  /// What generators can have: what an incarnation begins with, and what the learner wrote into a
  /// copy.
  std::set<std::pair<incarnation_id, base::hash128>> offered;
  std::int64_t not_offered = 0;  ///< steps
  /// Every job that was ever sent, by its lease.
  struct sent_job {
    sample_id sample = 0;
    int host = 0;
    base::hash128 source;  ///< of its text
    std::int64_t deadline_ns = 0;
  };
  std::map<std::uint64_t, sent_job> jobs;
  std::map<std::uint64_t, std::pair<sample_id, std::int64_t>> seeds;  ///< sample and attempt
  std::map<sample_id, base::hash128> source_of;  ///< what control asked about last, by sample
  std::map<sample_id, std::int64_t> attempts;    ///< jobs since control asked
  /// The session of the host that said FAILED last; a host that starts again is another one.
  std::map<sample_id, actors::session_id> failed_at;
  std::int64_t most_attempts = 0;  ///< that a sample may have, and one more for its claim
  std::set<sample_id> claimed;     ///< samples of which a host made a large claim
  std::map<incarnation_id, weights_version>
      steps_made;                  ///< the newest version that its learner made
  int left_out_in_a_row = 0;       ///< steps
  std::int64_t oldest_age = 0;     ///< at which a token was trained on
  std::int64_t masked = 0;         ///< tokens
  std::int64_t left_out = 0;       ///< steps whose gradient was not finite
  std::int64_t sick_until_ns = 0;  ///< no host can judge anything before
  bool run_over = false;           ///< control has said so
  std::string violation;           ///< the first one

  void violated(std::string what) {
    if (violation.empty()) violation = std::move(what);
  }
};

}  // namespace quern::sim
