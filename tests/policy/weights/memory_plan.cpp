// What a learner and a generator will hold, and what to change where it does not fit.
#include "policy/weights/memory_plan.hpp"

#include "support/test.hpp"
#include "tools/model_shapes.hpp"

using namespace quern;
using namespace quern::policy;

namespace {

constexpr std::int64_t gigabyte = 1'000'000'000;

model_config one_and_a_half() {
  return tools::qwen_shape("1.5B").value();
}
model_config half_a_billion() {
  return tools::qwen_shape("0.5B").value();
}

/// A learner in bfloat16 on a GPU, as tools/benchmarks/bench_train.cpp makes one.
learner_demand on_a_gpu() {
  learner_demand demand;
  demand.weight_bytes = 2;
  demand.micro_batch_tokens = 16384;
  demand.longest_sequence = 2048;
  demand.loss_chunk = 2048;
  demand.gpu = true;
  return demand;
}

std::int64_t bytes_of(const memory_plan& plan, std::string_view what) {
  for (const memory_item& item : plan.items)
    if (item.purpose.starts_with(what)) return item.bytes;
  return -1;
}

}  // namespace

TEST_CASE("weights, gradients and moments of a known model, and what ranks share of them") {
  const model_config config = one_and_a_half();
  learner_demand demand;
  const memory_plan one = plan_learner(config, demand);
  CHECK(bytes_of(one, "weights") == doctest::Approx(1.544e9 * 4).epsilon(0.001));
  CHECK(bytes_of(one, "moments") == 2 * bytes_of(one, "weights"));
  CHECK(bytes_of(one, "master") == 0);
  demand.ranks = 4;
  const memory_plan four = plan_learner(config, demand);
  CHECK(bytes_of(four, "moments") ==
        doctest::Approx(bytes_of(one, "moments") / 4.0).epsilon(0.001));
  CHECK(bytes_of(four, "master") == doctest::Approx(bytes_of(one, "weights") / 4.0).epsilon(0.001));
  CHECK(four.total() < one.total());
  demand.weight_bytes = 2;
  CHECK(bytes_of(plan_learner(config, demand), "weights") ==
        doctest::Approx(1.544e9 * 2).epsilon(0.001));
}

TEST_CASE("each mode of recomputing holds less than the one before") {
  learner_demand demand;
  std::int64_t before = -1;
  for (const recompute_mode mode :
       {recompute_mode::none, recompute_mode::mlp, recompute_mode::full}) {
    demand.recompute = mode;
    const std::int64_t now = bytes_of(plan_learner(one_and_a_half(), demand), "activations");
    if (before >= 0) CHECK(now < before / 2);
    before = now;
  }
}

TEST_CASE("a learner in bfloat16 that does not fit a GPU is told to recompute") {
  constexpr std::int64_t there = 60 * gigabyte;
  const auto refused = check_learner(one_and_a_half(), on_a_gpu(), there);
  REQUIRE_FALSE(refused);
  CAPTURE(refused.error().message);
  CHECK(quern::test::contains(refused.error().message, "it fits with learner.recompute=mlp"));
  learner_demand demand = on_a_gpu();
  demand.recompute = recompute_mode::mlp;
  CHECK(check_learner(one_and_a_half(), demand, there));
}

TEST_CASE("in bfloat16 on a GPU a little more is planned than was taken from the device") {
  const auto planned = [](const model_config& config) {
    return static_cast<double>(plan_learner(config, on_a_gpu()).total());
  };
  const double small = 31.4 * gigabyte, large = 72.1 * gigabyte;  // bench_train, recompute none
  CHECK(planned(half_a_billion()) > small);
  CHECK(planned(half_a_billion()) < 1.05 * small);
  CHECK(planned(one_and_a_half()) > large);
  CHECK(planned(one_and_a_half()) < 1.05 * large);
}

TEST_CASE(
    "attention on a GPU: the fused operator, its keys of shared prompts, and tiles without it") {
  const model_config config = one_and_a_half();
  const auto attention = [&](const learner_demand& demand) {
    return bytes_of(plan_learner(config, demand), "attention");
  };
  learner_demand demand = on_a_gpu();
  // 16 segments. A row: q, k, v and their gradients, those of k and v for 12 heads, in 2 bytes; 12
  // heads of float32 with their log-sums' gradients, for 128 rows more each segment.
  constexpr std::int64_t rows = 16384, segments = 16, row = 2 * (2 * 2048 + 2 * 1536),
                         summed = 4 * 12 * 129;
  CHECK(attention(demand) == rows * row + (rows + 128 * segments) * summed);
  demand.shared_prompt = 1024;  // completions of 512: 32 segments
  constexpr std::int64_t keys = 32 * 1024, key = 2 * (4 * 256 + 2 * 1536);
  CHECK(attention(demand) == rows * row + keys * key + (rows + 2 * 128 * segments) * summed);
  demand.sequences = 4;
  CHECK(attention(demand) == rows * row + 4 * 1024 * key + (rows + 4 * 128) * summed);
  // Scores of one segment, 6 heads at once, and their gradients.
  demand.weight_bytes = 4;
  constexpr std::int64_t scores = 2 * 4 * 6 * 2048 * 2048;
  const std::int64_t in_tiles = attention(demand);
  CHECK(in_tiles > scores);
  demand.gpu = false;
  CHECK(attention(demand) < in_tiles - scores);
  CHECK(bytes_of(plan_learner(config, demand), "libraries") == 0);
}

TEST_CASE("links hold two more copies of the weights") {
  learner_demand demand = on_a_gpu();
  const std::int64_t without = plan_learner(half_a_billion(), demand).total();
  demand.links = true;
  const memory_plan with = plan_learner(half_a_billion(), demand);
  CHECK(bytes_of(with, "copies") == 2 * bytes_of(with, "weights"));
  CHECK(with.total() == without + bytes_of(with, "copies"));
}

TEST_CASE("an exact learner holds the scorer's weights, those of the next version and its cache") {
  learner_demand demand = on_a_gpu();
  const model_config model = half_a_billion();
  const std::int64_t without = plan_learner(model, demand).total();
  demand.exact = true;
  const memory_plan with = plan_learner(model, demand);
  const std::int64_t cache =
      scorer_slots * demand.longest_sequence * model.layers * 2 * model.kv_size() * 4;
  // In float32 and, as they come, in bfloat16.
  CHECK(bytes_of(with, "passes like") == 3 * bytes_of(with, "weights") + cache);
  CHECK(with.total() == without + bytes_of(with, "passes like"));
}

TEST_CASE("what does not fit is told with a table and the settings that make it fit") {
  const model_config config = one_and_a_half();
  learner_demand demand;
  demand.micro_batch_tokens = 16384;
  const auto told = [&](std::int64_t available) {
    const auto checked = check_learner(config, demand, available);
    return checked ? std::string() : checked.error().message;
  };
  const std::int64_t all = plan_learner(config, demand).total();
  CHECK(told(all).empty());
  const std::string little = told(all - 1);
  CAPTURE(little);
  CHECK(quern::test::contains(little, "it fits with learner.recompute=mlp"));
  CHECK(quern::test::contains(little, "moments"));
  CHECK(quern::test::contains(told(28 * gigabyte), "learner.micro_batch_tokens="));
  const std::string ranks = told(24 * gigabyte);
  CAPTURE(ranks);
  CHECK(quern::test::contains(ranks, "learner.ranks="));
  CHECK(quern::test::contains(told(gigabyte), "smaller model"));
  // What is proposed does fit.
  demand.recompute = recompute_mode::mlp;
  CHECK(check_learner(config, demand, all - 1));
}

TEST_CASE("ranks of one host have room for their checkpoints, too") {
  model_config config = one_and_a_half();
  config.dtype = weight_dtype::bf16;
  learner_demand demand = on_a_gpu();
  demand.ranks = 4;
  const memory_plan first = plan_checkpoint(config, demand, true),
                    other = plan_checkpoint(config, demand, false);
  CHECK(bytes_of(first, "weights") == doctest::Approx(1.544e9 * 2).epsilon(0.001));
  CHECK(bytes_of(other, "weights") == 0);
  CHECK(bytes_of(first, "master") == doctest::Approx(1.544e9 * 12 / 4).epsilon(0.001));
  const std::int64_t four = first.total() + 3 * other.total();
  CHECK(check_host(config, demand, 4, true, four));
  CHECK(check_host(config, demand, 4, false, 4 * other.total()));
  const auto refused = check_host(config, demand, 4, true, four - 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::exhausted);
  for (const char* part : {"4 ranks", "weights of a checkpoint", "learner.hosts"})
    CHECK(quern::test::contains(refused.error().message, part));
  // On the CPU they train in the same memory.
  demand.gpu = false;
  CHECK_FALSE(check_host(config, demand, 4, true, four));
  CHECK(check_host(config, demand, 4, true, four + 4 * plan_learner(config, demand).total()));
}

TEST_CASE("a generator's two arenas and its cache") {
  const model_config config = one_and_a_half();
  generator_demand demand;
  demand.weight_bytes = demand.value_bytes = 2;
  demand.slots = 256;
  demand.capacity = 4096;
  const memory_plan plan = plan_generator(config, demand);
  // 28,672 bytes a token.
  CHECK(bytes_of(plan, "keys") == std::int64_t{256} * 4096 * 28672);
  CHECK(check_generator(config, demand, plan.total()));
  const auto refused = check_generator(config, demand, 20 * gigabyte);
  REQUIRE_FALSE(refused);
  CHECK(quern::test::contains(refused.error().message, "room for 117 sequences"));
  CHECK_FALSE(check_generator(config, demand, gigabyte));
}
