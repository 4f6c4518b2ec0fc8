// Takes layers of a verdict away, in this test program alone.
#include "layers_off.hpp"

#include <atomic>
#include <cstdint>
#include <utility>

#include "support/test.hpp"

namespace quern::test {
namespace {

std::atomic<std::uint32_t> layers_off{0};

std::uint32_t bit_of(env::judge_layer which) {
  return 1U << static_cast<unsigned>(which);
}

}  // namespace

env::judge_layer layer_named(std::string_view name) {
  using enum env::judge_layer;
  static constexpr std::pair<std::string_view, env::judge_layer> names[] = {
      {"values", values},
      {"timed_values", timed_values},
      {"hidden_windows", hidden_windows},
      {"fresh_content", fresh_content},
      {"other_sizes", other_sizes},
      {"repeats", repeats},
      {"read_only", read_only},
      {"floor", floor},
      {"canaries", canaries},
      {"late_answers", late_answers},
      {"idle_charge", idle_charge},
      {"messages", messages},
      {"threads", threads},
      {"thread_count", thread_count},
      {"cpu_and_wall", cpu_and_wall}};
  for (const auto& [known, which] : names)
    if (known == name) return which;
  FAIL("no layer is called ", name);
  return values;
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
