// A rank of the learner, alone and with another rank: batches whose gradient is not finite, and the
// weights that it hands to generators.
#include "actors/workers/learning_worker.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "actors/workers/element_type.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/engine/threads.hpp"
#include "policy/weights/weight_channel.hpp"
#include "support/test.hpp"
#include "tests/actors/workers/small_learner.hpp"
#include "tests/actors/workers/stopped_pupil.hpp"

using namespace quern;
using namespace quern::actors;
using test::batch_of;
using test::small_learner;
using test::spoilt;

namespace {

learning_worker rank_of(const small_learner& alone) {
  auto made = learning_worker::make(alone.start, alone.config, 0);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return std::move(*made);
}

/// The weights of a step, as a generator reads them from the file that the answer names: in the
/// type that the learner computes with, and without what ranks need.
void check_file(const small_learner& of, const step_done& step, policy::weight_dtype type) {
  auto read = policy::parameter_arena::load(of.start.checkpoint, element_type_of(type)).value();
  const std::span<std::byte> bytes(static_cast<std::byte*>(read.flat.data_ptr()),
                                   read.flat.nbytes());
  const auto whole = policy::read_weights(of.start.weights_folder, step.weights.file, type, bytes);
  CHECK_MESSAGE(whole, (whole ? "" : whole.error().message));
  CHECK(read.hash() == step.weights.hash);
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
  small_learner alone(1), untouched(1);
  learning_worker rank = rank_of(alone);
  const auto answers = three_steps(rank);
  check_spoiled(answers);
  const auto& done = *answers;
  check_file(alone, done[2], policy::weight_dtype::f32);
  CHECK(done[1].weights.hash == done[0].weights.hash);
  CHECK(done[2].weights.hash != done[0].weights.hash);
  const auto metrics = base::parse_json(done[1].metrics);
  REQUIRE(metrics);
  CHECK((*metrics)["skipped"].get<bool>());
  // As if the spoiled batch had never been.
  learning_worker other = rank_of(untouched);
  REQUIRE(other.step(batch_of(0, 1, spoilt::nothing)));
  const auto second = other.step(batch_of(1, 2, spoilt::nothing));
  REQUIRE(second);
  CHECK(second->weights.hash == done[2].weights.hash);
}

TEST_CASE("a batch with a log-prob that is not finite is left out, like one without a gradient") {
  policy::set_threads(1);
  small_learner alone(1);
  alone.config.learner.precision = "bfloat16";
  learning_worker rank = rank_of(alone);
  const auto answers = three_steps(rank, spoilt::log_prob);
  check_spoiled(answers);
  check_file(alone, (*answers)[2], policy::weight_dtype::bf16);
  CHECK((*answers)[1].weights.hash == (*answers)[0].weights.hash);
  const auto metrics = base::parse_json((*answers)[1].metrics);
  REQUIRE(metrics);
  CHECK((*metrics)["dropped_fraction"].get<double>() == doctest::Approx(1.0 / 6));
  CHECK((*metrics)["step_s"].get<double>() > 0);
  CHECK((*metrics)["flops_per_s"].get<double>() > 0);
  CHECK_FALSE(metrics->contains("mfu"));  // nobody states the peak of a CPU
}

TEST_CASE("two ranks leave a batch out that is spoiled on one of them, and go on together") {
  policy::set_threads(1);
  small_learner both(2);
  both.config.learner.precision = "bfloat16";
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
  check_file(both, (*of_first)[2], policy::weight_dtype::bf16);
  CHECK((*of_first)[1].weights.hash == (*of_first)[0].weights.hash);
  CHECK(first->ready().hash == second->ready().hash);
  CHECK(second->ready().version == 2);
}

TEST_CASE("a step whose weights no copy is free for says so, and offers them once one is") {
  policy::set_threads(1);
  small_learner alone(1);
  alone.config.actors.weights = "link";
  // No buffer of a connection holds weights of this model.
  policy::model_config shape = test::small_config(policy::architecture::qwen3);
  shape.vocab_size = 400'000;
  const auto weights = policy::parameter_arena::random(shape, 1).value();
  const std::string demo =
      std::exchange(alone.start.checkpoint, alone.folder.path().string() + "/model");
  REQUIRE(base::make_folders(alone.start.checkpoint));
  REQUIRE(policy::save_model(weights, alone.start.checkpoint, demo));
  learning_worker rank = rank_of(alone);
  const auto open = [&](const std::string& name) {
    const std::string address = "unix:" + (alone.folder.path() / name).string();
    REQUIRE(rank.open_link({1, address}, alone.config));
    return std::make_unique<test::stopped_pupil>(address, weights);
  };
  const auto step = [&](weights_version from) {
    const auto done = rank.step(batch_of(from, from + 1, spoilt::nothing));
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
    CHECK(done->weights.file.empty());
    return *done;
  };
  auto first = open("1");
  const auto second = open("2");
  CHECK(step(0).offered);
  REQUIRE(first->ask() == 1);
  CHECK(step(1).offered);
  REQUIRE(second->ask() == 2);
  // Both copies are being sent.
  const step_done skipped = step(2);
  CHECK_FALSE(skipped.offered);
  CHECK(skipped.weights.version == 3);
  CHECK_FALSE(rank.offer({1}).value().has_value());
  // One of them is free again; control asks until it is.
  first.reset();
  CHECK_FALSE(rank.offer({2}).value().has_value());
  std::optional<weights_ready> offered;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!(offered = rank.offer({1}).value()) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  REQUIRE(offered);
  CHECK(offered->version == 3);
  CHECK(offered->incarnation == 1);
  CHECK(offered->hash == skipped.weights.hash);
  CHECK(rank.offer({1}).value().has_value());
}
