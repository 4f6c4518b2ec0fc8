// Takes layers of a verdict away, in this test program alone.
#include "layers_off.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>

#include "support/test.hpp"

namespace quern::test {
namespace {

std::atomic<std::uint32_t> layers_off{0};

std::uint32_t bit_of(env::judge_layer which) {
  return 1U << static_cast<unsigned>(which);
}

}  // namespace

env::judge_layer layer_named(std::string_view name) {
  const auto* known =
      std::find(std::begin(env::judge_layer_names), std::end(env::judge_layer_names), name);
  REQUIRE_MESSAGE(known != std::end(env::judge_layer_names), "no layer is called ", name);
  return static_cast<env::judge_layer>(known - std::begin(env::judge_layer_names));
}

without_layers::without_layers(const std::vector<env::judge_layer>& off) {
  std::uint32_t bits = 0;
  for (const auto which : off)
    bits |= bit_of(which);
  REQUIRE(layers_off.exchange(bits) == 0);
}

without_layers::~without_layers() {
  layers_off = 0;
}

}  // namespace quern::test

// In the place of the library's, which is weak.
bool quern::env::judges_with(judge_layer which) {
  return (quern::test::layers_off & quern::test::bit_of(which)) == 0;
}
