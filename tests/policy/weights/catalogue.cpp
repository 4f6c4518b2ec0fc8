// Where parameters lie: no overlap, alignment, fused views, shards; and plans between layouts.
#include "policy/weights/catalogue.hpp"

#include <numeric>

#include "policy/weights/plan.hpp"
#include "support/test.hpp"

using namespace quern::policy;

namespace {

model_config small(architecture arch, bool tied) {
  model_config c;
  c.arch = arch;
  c.vocab_size = 302;
  c.hidden_size = 24;
  c.intermediate_size = 50;
  c.layers = 3;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 10;
  c.max_positions = 64;
  c.tied_embeddings = tied;
  return c;
}

constexpr architecture all[] = {architecture::qwen2, architecture::qwen3, architecture::llama};

/// An arena in which every parameter element is its position in the whole model, so that a wrong
/// copy shows.
std::vector<float> numbered(const catalogue& c) {
  std::vector<float> arena(static_cast<std::size_t>(c.elements), 0.0F);
  std::int64_t base = 1;
  for (const auto& p : c.parameters) {
    const std::int64_t columns = p.shape.size() == 2 ? p.shape[1] : 1;
    for (std::int64_t r = 0; r < p.rows(); ++r)
      for (std::int64_t col = 0; col < p.columns(); ++col)
        arena[static_cast<std::size_t>(p.offset + r * p.columns() + col)] =
            static_cast<float>(base + (p.row_begin + r) * columns + p.column_begin + col);
    base += p.shape[0] * columns;
  }
  return arena;
}

}  // namespace

TEST_CASE("parameters are disjoint, aligned, in their buckets, and as many as the formula says") {
  for (const auto arch : all) {
    for (const bool tied : {false, true}) {
      for (const std::int32_t ranks : {1, 3, 8}) {
        const auto config = small(arch, tied);
        const auto c = make_catalogue(config, weight_dtype::bf16, {ranks, 0, 1});
        REQUIRE(c);
        std::int64_t total = 0;
        std::int64_t end = 0;
        for (const auto& p : c->parameters) {
          CHECK(p.offset >= end);
          end = p.offset + p.count();
          total += p.count();
          const auto& b = c->buckets[static_cast<std::size_t>(p.bucket)];
          CHECK(p.offset >= b.begin);
          CHECK(end <= b.begin + b.used);
          const bool joined = p.name.find("k_proj") != std::string::npos ||
                              p.name.find("v_proj") != std::string::npos ||
                              p.name.find("up_proj") != std::string::npos;
          if (!joined) CHECK(p.offset % parameter_alignment == 0);
        }
        CHECK(total == parameter_count(config));
        CHECK(c->buckets.size() == 5);
        std::int64_t begin = 0;
        for (std::int32_t i = 0; i < 5; ++i) {
          const auto& b = c->buckets[static_cast<std::size_t>(i)];
          CHECK(b.begin == begin);
          CHECK(b.size >= b.used);
          CHECK(b.size - b.used < shard_alignment * ranks);
          for (std::int32_t r = 0; r < ranks; ++r) {
            const auto shard = c->shard(i, r);
            CHECK(shard.begin == begin);
            CHECK(shard.begin % shard_alignment == 0);
            begin = shard.end;
          }
          CHECK(begin == b.begin + b.size);
        }
        CHECK(begin == c->elements);
      }
    }
  }
}

TEST_CASE("fused names span their parts") {
  const auto c = make_catalogue(small(architecture::qwen2, true), weight_dtype::f32);
  REQUIRE(c);
  const std::string layer = "model.layers.1.";
  const auto qkv = c->place_of(layer + "self_attn.qkv_proj.weight");
  REQUIRE(qkv);
  CHECK(qkv->shape == std::vector<std::int64_t>{40 + 20 + 20, 24});
  CHECK(qkv->offset == c->find(layer + "self_attn.q_proj.weight")->offset);
  CHECK(c->find(layer + "self_attn.k_proj.weight")->offset == qkv->offset + 40 * 24);
  CHECK(c->find(layer + "self_attn.v_proj.weight")->offset == qkv->offset + 60 * 24);
  const auto bias = c->place_of(layer + "self_attn.qkv_proj.bias");
  REQUIRE(bias);
  CHECK(bias->shape == std::vector<std::int64_t>{80});
  const auto up = c->place_of(layer + "mlp.gate_up_proj.weight");
  REQUIRE(up);
  CHECK(up->shape == std::vector<std::int64_t>{100, 24});
  CHECK(c->find(layer + "mlp.up_proj.weight")->offset == up->offset + 50 * 24);
  CHECK_FALSE(c->place_of("lm_head.weight"));
  CHECK_FALSE(c->place_of("model.layers.3.mlp.gate_up_proj.weight"));
  const auto qwen3 = make_catalogue(small(architecture::qwen3, false), weight_dtype::f32);
  CHECK_FALSE(qwen3->place_of(layer + "self_attn.qkv_proj.bias"));
  CHECK(qwen3->find(layer + "self_attn.q_norm.weight") != nullptr);
  CHECK(qwen3->find("lm_head.weight") != nullptr);
}

TEST_CASE("layouts that cannot be are refused") {
  const auto config = small(architecture::llama, true);
  const auto problem = [&](layout place) {
    const auto made = make_catalogue(config, weight_dtype::f32, place);
    return made ? std::string() : made.error().message;
  };
  CHECK(problem({1, 0, 2}).empty());
  CHECK(problem({1, 0, 4}).find("num_key_value_heads") != std::string::npos);
  CHECK(problem({0, 0, 1}).find("optimiser shards") != std::string::npos);
  CHECK(problem({1, 2, 2}).find("rank 2 of 2") != std::string::npos);
  auto broken = config;
  broken.head_dim = 7;
  CHECK_FALSE(make_catalogue(broken, weight_dtype::f32));
}

TEST_CASE("equal layouts are one flat copy; other layouts carry every element") {
  for (const auto arch : all) {
    const auto config = small(arch, false);
    const auto source = *make_catalogue(config, weight_dtype::f32, {1, 0, 1});
    const auto source_arena = numbered(source);

    const auto flat = make_plan(source, source);
    REQUIRE(flat);
    CHECK(flat->copies == std::vector<copy_range>{{0, 0, source.elements}});

    const auto padded = *make_catalogue(config, weight_dtype::f32, {7, 0, 1});
    const auto plan = make_plan(source, padded);
    REQUIRE(plan);
    CHECK(covers(std::span(&*plan, 1), padded));
    std::vector<float> arena(static_cast<std::size_t>(padded.elements), 0.0F);
    REQUIRE(run_plan(*plan, std::as_bytes(std::span(source_arena)),
                     std::as_writable_bytes(std::span(arena))));
    CHECK(arena == numbered(padded));
    CHECK(plan->hash != flat->hash);
  }
}

TEST_CASE("tensor-parallel shards are split and gathered") {
  const auto config = small(architecture::qwen2, false);
  const auto whole = *make_catalogue(config, weight_dtype::f32);
  const auto whole_arena = numbered(whole);
  std::vector<transfer_plan> gather;
  std::vector<float> gathered(static_cast<std::size_t>(whole.elements), 0.0F);
  for (const std::int32_t rank : {0, 1}) {
    const auto part = *make_catalogue(config, weight_dtype::f32, {1, rank, 2});
    std::vector<float> arena(static_cast<std::size_t>(part.elements), 0.0F);
    const auto scatter = make_plan(whole, part);
    REQUIRE(scatter);
    CHECK(covers(std::span(&*scatter, 1), part));
    REQUIRE(run_plan(*scatter, std::as_bytes(std::span(whole_arena)),
                     std::as_writable_bytes(std::span(arena))));
    CHECK(arena == numbered(part));
    gather.push_back(*make_plan(part, whole));
    REQUIRE(run_plan(gather.back(), std::as_bytes(std::span(arena)),
                     std::as_writable_bytes(std::span(gathered))));
  }
  CHECK(gathered == whole_arena);
  CHECK_FALSE(covers(std::span(gather).first(1), whole));
}

TEST_CASE("plans between different models, dtypes or arenas are refused") {
  const auto a = *make_catalogue(small(architecture::qwen2, false), weight_dtype::f32);
  const auto b = *make_catalogue(small(architecture::qwen3, false), weight_dtype::f32);
  const auto half = *make_catalogue(small(architecture::qwen2, false), weight_dtype::bf16);
  auto wider = small(architecture::qwen2, false);
  wider.intermediate_size = 60;
  CHECK_FALSE(make_plan(a, b));
  CHECK_FALSE(make_plan(a, half));
  CHECK_FALSE(make_plan(a, *make_catalogue(wider, weight_dtype::f32)));
  const auto plan = *make_plan(a, a);
  std::vector<std::byte> small_arena(16);
  std::vector<std::byte> arena(a.bytes());
  CHECK_FALSE(run_plan(plan, arena, small_arena));
  CHECK_FALSE(run_plan(plan, small_arena, arena));
}
