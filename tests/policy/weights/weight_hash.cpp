// Hashes of weights: fixed values, sums over shards, and what changes them.
#include "policy/weights/weight_hash.hpp"

#include <algorithm>
#include <cmath>

#include "policy/weights/plan.hpp"
#include "support/test.hpp"

using namespace quern::policy;
using quern::base::hash128;

namespace {

model_config tiny() {
  model_config c;
  c.arch = architecture::qwen2;
  c.vocab_size = 260;
  c.hidden_size = 16;
  c.intermediate_size = 32;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.max_positions = 64;
  return c;
}

std::vector<float> values(const catalogue& c) {
  std::vector<float> arena(static_cast<std::size_t>(c.elements), 0.0F);
  float next = 0.5F;
  for (const auto& p : c.parameters)
    for (std::int64_t i = 0; i < p.count(); ++i)
      arena[static_cast<std::size_t>(p.offset + i)] = next += 0.25F;
  return arena;
}

}  // namespace

TEST_CASE("the element hash is the one in the header") {
  // Values computed from the formula in Python, with integers of any length.
  CHECK(element_hash({0, 0}, 0, 0) == hash128{0x9e0160293a33aaf7ULL, 0x48218226ff3cd4bfULL});
  CHECK(element_hash({0x0123456789abcdef, 0xfedcba9876543210}, 1000003, 0x3f8ccccd) ==
        hash128{0xa0326cc1a47048f9ULL, 0x985c1a2f4d41f41ULL});
}

TEST_CASE("sums wrap and commute") {
  const hash128 a{~0ULL, 5};
  const hash128 b{2, ~0ULL};
  CHECK(add(a, b) == hash128{1, 4});
  CHECK(add(a, b) == add(b, a));
  CHECK(add(a, {}) == a);
}

TEST_CASE("hashes of tensor-parallel shards add up to the whole, and layout does not matter") {
  const auto whole = *make_catalogue(tiny(), weight_dtype::f32);
  const auto arena = values(whole);
  const auto expected = tensor_hashes(whole, std::as_bytes(std::span(arena)));

  std::vector<hash128> sums(expected.size());
  for (const std::int32_t rank : {0, 1}) {
    const auto part = *make_catalogue(tiny(), weight_dtype::f32, {1, rank, 2});
    std::vector<float> local(static_cast<std::size_t>(part.elements));
    REQUIRE(run_plan(*make_plan(whole, part), std::as_bytes(std::span(arena)),
                     std::as_writable_bytes(std::span(local))));
    const auto hashes = tensor_hashes(part, std::as_bytes(std::span(local)));
    for (std::size_t i = 0; i < sums.size(); ++i)
      // A tensor that every rank holds whole is counted once.
      if (part.parameters[i].part != partition::whole || rank == 0)
        sums[i] = add(sums[i], hashes[i]);
  }
  CHECK(sums == expected);

  const auto padded = *make_catalogue(tiny(), weight_dtype::f32, {5, 0, 1});
  std::vector<float> other(static_cast<std::size_t>(padded.elements), 3.0F);  // padding counts not
  REQUIRE(run_plan(*make_plan(whole, padded), std::as_bytes(std::span(arena)),
                   std::as_writable_bytes(std::span(other))));
  CHECK(weights_hash(padded, std::as_bytes(std::span(other))) ==
        weights_hash(whole, std::as_bytes(std::span(arena))));
}

TEST_CASE("a changed bit, swapped elements and swapped tensors are seen") {
  const auto c = *make_catalogue(tiny(), weight_dtype::f32);
  const auto arena = values(c);
  const auto hash = [&](const std::vector<float>& a) {
    return weights_hash(c, std::as_bytes(std::span(a)));
  };
  const auto before = hash(arena);
  auto flipped = arena;
  flipped[17] = std::nextafter(flipped[17], 100.0F);
  CHECK(hash(flipped) != before);
  auto swapped = arena;
  std::swap(swapped[3], swapped[4]);
  CHECK(hash(swapped) != before);
  auto tensors = arena;
  const auto k = c.find("model.layers.0.self_attn.k_proj.weight");
  const auto v = c.find("model.layers.0.self_attn.v_proj.weight");
  std::swap_ranges(tensors.begin() + k->offset, tensors.begin() + k->offset + k->count(),
                   tensors.begin() + v->offset);
  CHECK(hash(tensors) != before);
  auto negative_zero = arena;
  for (auto& value : negative_zero)
    value = 0.0F;
  const auto zero = hash(negative_zero);
  negative_zero[5] = -0.0F;
  CHECK(hash(negative_zero) != zero);
}
