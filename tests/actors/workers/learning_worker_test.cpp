// A rank of the learner and batches whose gradient is not finite, alone and with another rank.
#include "actors/workers/learning_worker.hpp"

#include <array>
#include <limits>
#include <optional>
#include <thread>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/engine/threads.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

struct learner {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  run_config config;
  welcome start;

  explicit learner(std::int64_t ranks) {
    config.algorithm.preset = "reinforce";  // a reward is an advantage
    config.learner.device = "cpu";
    config.learner.ranks = ranks;
    config.learner.warmup_steps = 0;
    config.learner.rank_deadline_s = 60;
    start.epoch = 1;
    start.checkpoint = start.reference = (test::source_dir() / "policy/demo").string();
    start.weights_folder = folder.path().string();
    start.meeting = "unix:" + folder.path().string() + "/learners-1";
  }
  learning_worker rank(std::int32_t number) {
    auto made = learning_worker::make(start, config, number);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    return std::move(*made);
  }
};

enum class spoilt { nothing, reward, log_prob };

/// Two groups of two. One sample has a reward whose gradient is beyond a float, or a log-prob of a
/// single token that is not finite.
train_batch batch_of(weights_version from, std::int64_t number, spoilt what) {
  train_batch batch;
  batch.epoch = 1;
  batch.from = from;
  batch.number = number;
  for (sample_id id = 0; id < 4; ++id) {
    training_sample sample;
    sample.sample = 10 * number + id;
    sample.group = id / 2;
    sample.tokens = to_block<std::int32_t>({5, 6, 7, 8, static_cast<std::int32_t>(20 + id), 9});
    sample.segments = single_turn(3, 3);
    sample.log_probs = to_block(std::vector<float>(3, -3.0F));
    sample.versions = {{0, from, base::hash128{}}};
    sample.reward = id % 2 == 0 ? 1.0 : 0.0;
    if (what == spoilt::reward && id == 0) sample.reward = 1e300;
    if (what == spoilt::log_prob && id == 0)
      sample.log_probs =
          to_block(std::vector<float>{-3.0F, -std::numeric_limits<float>::infinity(), -3.0F});
    batch.samples.push_back(std::move(sample));
  }
  return batch;
}

/// A batch, a spoiled one and another one: what the rank answers to each.
base::expected<std::array<step_done, 3>> three_steps(learning_worker& rank,
                                                     spoilt what = spoilt::reward) {
  std::array<step_done, 3> done;
  const std::array<train_batch, 3> batches = {batch_of(0, 1, spoilt::nothing), batch_of(1, 2, what),
                                              batch_of(1, 3, spoilt::nothing)};
  for (std::size_t i = 0; i < batches.size(); ++i) {
    QUERN_TRY(done[i], rank.step(batches[i]));
  }
  return done;
}

void check_spoiled(const base::expected<std::array<step_done, 3>>& of_rank) {
  REQUIRE_MESSAGE(of_rank, (of_rank ? "" : of_rank.error().message));
  const auto& done = *of_rank;
  CHECK_FALSE(done[0].left_out);
  CHECK(done[0].weights.version == 1);
  CHECK(done[1].left_out);
  CHECK(done[1].batch == 2);
  CHECK(done[1].weights.version == 1);
  CHECK(done[1].weights.file.empty());
  CHECK_FALSE(done[2].left_out);
  CHECK(done[2].weights.version == 2);
}

}  // namespace

TEST_CASE("a batch without a finite gradient is left out, and the weights stay as they were") {
  policy::set_threads(1);
  learner alone(1), untouched(1);
  learning_worker rank = alone.rank(0);
  const auto answers = three_steps(rank);
  check_spoiled(answers);
  const auto& done = *answers;
  CHECK(done[1].weights.hash == done[0].weights.hash);
  CHECK(done[2].weights.hash != done[0].weights.hash);
  const auto metrics = base::parse_json(done[1].metrics);
  REQUIRE(metrics);
  CHECK((*metrics)["skipped"].get<bool>());
  // As if the spoiled batch had never been.
  learning_worker other = untouched.rank(0);
  REQUIRE(other.step(batch_of(0, 1, spoilt::nothing)));
  const auto second = other.step(batch_of(1, 2, spoilt::nothing));
  REQUIRE(second);
  CHECK(second->weights.hash == done[2].weights.hash);
}

TEST_CASE("a batch with a log-prob that is not finite is left out, like one without a gradient") {
  policy::set_threads(1);
  learner alone(1);
  learning_worker rank = alone.rank(0);
  const auto answers = three_steps(rank, spoilt::log_prob);
  check_spoiled(answers);
  CHECK((*answers)[1].weights.hash == (*answers)[0].weights.hash);
  const auto metrics = base::parse_json((*answers)[1].metrics);
  REQUIRE(metrics);
  CHECK((*metrics)["dropped_fraction"].get<double>() == doctest::Approx(1.0 / 6));
}

TEST_CASE("two ranks leave a batch out that is spoiled on one of them, and go on together") {
  policy::set_threads(1);
  learner both(2);
  base::expected<std::array<step_done, 3>> of_second;
  // Both are there to the end: a rank that loses the other one ends its process.
  std::optional<learning_worker> second;
  std::thread other([&] {
    policy::set_threads(1);
    auto made = learning_worker::make(both.start, both.config, 1);
    if (!made) {
      of_second = tl::make_unexpected(made.error());
      return;
    }
    second.emplace(std::move(*made));
    of_second = three_steps(*second);
  });
  auto first = learning_worker::make(both.start, both.config, 0);
  const auto of_first = first ? three_steps(*first) : tl::make_unexpected(first.error());
  other.join();
  check_spoiled(of_first);
  check_spoiled(of_second);
  CHECK((*of_first)[1].weights.hash == (*of_first)[0].weights.hash);
  CHECK(first->ready().hash == second->ready().hash);
  CHECK(second->ready().version == 2);
}
