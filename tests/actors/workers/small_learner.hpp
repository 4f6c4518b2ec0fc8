// What a rank of a learner of the shipped policy begins with, and batches for it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/decide/token_segments.hpp"
#include "actors/messages.hpp"
#include "actors/wire.hpp"
#include "base/file.hpp"
#include "support/test.hpp"

namespace quern::test {

struct small_learner {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  actors::run_config config;
  actors::welcome start;

  explicit small_learner(std::int64_t ranks) {
    config.algorithm.preset = "reinforce";  // a reward is an advantage
    config.learner.device = "cpu";
    config.learner.ranks = ranks;
    config.learner.warmup_steps = 0;
    config.learner.rank_deadline_s = 60;
    start.incarnation = 1;
    start.checkpoint = start.reference = (test::source_dir() / "policy/demo").string();
    start.weights_folder = folder.path().string();
    start.rendezvous = "unix:" + folder.path().string() + "/learners-1";
  }
};

enum class spoilt { nothing, reward, log_prob };

/// Two groups of two. One sample has a reward whose gradient is beyond a float, or a log-prob of a
/// single token that is not finite.
inline actors::train_batch batch_of(actors::weights_version from, std::int64_t number,
                                    spoilt what) {
  actors::train_batch batch;
  batch.incarnation = 1;
  batch.from = from;
  batch.number = number;
  for (actors::sample_id id = 0; id < 4; ++id) {
    actors::training_sample sample;
    sample.sample = 10 * number + id;
    sample.group = id / 2;
    sample.tokens =
        actors::to_block<std::int32_t>({5, 6, 7, 8, static_cast<std::int32_t>(20 + id), 9});
    sample.segments = actors::single_turn(3, 3);
    sample.log_probs = actors::to_block(std::vector<float>(3, -3.0F));
    sample.versions = {{0, from, base::hash128{}}};
    sample.reward = id % 2 == 0 ? 1.0 : 0.0;
    if (what == spoilt::reward && id == 0) sample.reward = 1e300;
    if (what == spoilt::log_prob && id == 0)
      sample.log_probs = actors::to_block(
          std::vector<float>{-3.0F, -std::numeric_limits<float>::infinity(), -3.0F});
    batch.samples.push_back(std::move(sample));
  }
  return batch;
}

}  // namespace quern::test
