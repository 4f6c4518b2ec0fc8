// Hashes of weights by the table of kernels, on host memory: those of plain loops.
#include "policy/engine/arena_hash.hpp"

#include "policy/engine/arena.hpp"
#include "policy/engine/small_models.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;

TEST_CASE("the kernel's hash is that of the weights, in both element types and any layout") {
  for (const std::int32_t ranks : {1, 4})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      layout place;
      place.ranks = ranks;
      const parameter_arena arena =
          parameter_arena::random(quern::test::small_config(architecture::qwen3), 5, type, at::kCPU,
                                  place)
              .value();
      CHECK(hash_by(host_policy_kernels(), arena.layout, arena.flat) == arena.hash());
      CHECK_FALSE(hash_on_device(arena.layout, arena.flat));
      parameter_arena other = arena.like();
      other.flat.copy_(arena.flat);
      other.view("model.norm.weight")[3].mul_(1.5);
      CHECK_FALSE(hash_by(host_policy_kernels(), other.layout, other.flat) == arena.hash());
    }
}

TEST_CASE("a tensor's part by columns adds up with the others to the whole") {
  const at::Tensor x =
      at::Tensor(parameter_arena::random(quern::test::small_config(architecture::qwen2), 6)
                     .value()
                     .flat.narrow(0, 0, 60));
  const auto& kernels = host_policy_kernels();
  std::uint64_t whole[2] = {}, parts[2] = {};
  const auto* values = x.const_data_ptr<float>();
  REQUIRE(kernels.hash_elements(quern_f32, {6, 10, 0, 10, 1, 2}, values, whole, nullptr) == 0);
  for (int row = 0; row < 6; ++row)
    for (const int column : {0, 4})
      REQUIRE(kernels.hash_elements(
                  quern_f32,
                  {1, column == 0 ? 4 : 6, static_cast<std::uint64_t>(10 * row + column), 10, 1, 2},
                  values + 10 * row + column, parts, nullptr) == 0);
  CHECK(whole[0] == parts[0]);
  CHECK(whole[1] == parts[1]);
}
