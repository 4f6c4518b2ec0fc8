// Tasks and kernels that addresses of each lane give: stored corpora, splits and policies hang on
// them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "env/grammar/draw.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/grammar/variants.hpp"
#include "env/task/lane.hpp"
#include "env/task/task_codec.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

struct golden_draw {
  std::string_view lane;
  std::uint64_t seed;
  std::uint64_t index;
  std::string_view task;     ///< xxh128 of the task's file
  std::string_view kernels;  ///< xxh128 of the first variants, see text_of_variants
};

constexpr std::uint64_t variants = 32;

/// Half of them wrong: style, mistake and source of each.
std::string text_of_variants(const env::variant_supply& supply, std::uint64_t seed) {
  std::string text;
  for (std::uint64_t i = 0; i < variants; ++i) {
    const env::kernel_variant one = supply.draw(seed, i, 0.5);
    text += one.style + "\n" + std::string(name_of(one.error)) + "\n" + one.source;
  }
  return text;
}

// clang-format off
constexpr std::array golden{
    golden_draw{"cpp", 1, 0, "cacc263d093af768fc1944108d155ad7", "ce11bc97032a85ae44c23459b52784ce"},  // clip | times_tensor | centre
    golden_draw{"cpp", 1, 7, "6d1ba3df649cfad9dfafbc648c41d34e", "abdd4a175390e8c544ca492405f73a99"},  // tanh | plus_row | silu
    golden_draw{"cpp", 2, 123456, "e3e7376ddf7db0510b979692d5f4dc4d", "0ec585d79c1d86da66e4103fe8bcc932"},  // scale 0.5 | l1
    golden_draw{"cuda", 1, 0, "250cd9782baeb8b61b052816646f5fb5", "59f648abf9d87e0d91629fc86531324f"},  // clip | times_tensor | centre
    golden_draw{"cuda", 1, 7, "819085422f7ac23d9933bfa5212fc19e", "642582831d550f176db02ff62d58cf1e"},  // tanh | plus_row | silu
    golden_draw{"cuda", 2, 123456, "06d9847e3e81e41cf4d2dbea4a988b47", "cf0b3771caf189c6544072e238799c49"},  // scale 0.5 | l1
};
// clang-format on

}  // namespace

// A failure means that an index gives something else than it gave: a corpus that is resumed would
// be of two grammars. Where that is wanted, the test prints the line that belongs here.
TEST_CASE("addresses of a lane's tasks and kernels keep their meaning") {
  for (const golden_draw& one : golden) {
    const env::lane* const lane = env::find_lane(one.lane);
    REQUIRE((lane != nullptr));
    const env::kernel_grammar& grammar = *lane->grammar();
    const env::composition what = draw_composition(one.seed, one.index, grammar.limits());
    const auto task = env::make_task(what, {0, lane});
    REQUIRE(task);
    const env::composition_probe probe(what);
    const env::variant_supply supply(probe, grammar);
    const std::string of_task = base::to_hex(base::xxh128(env::to_yaml(*task)));
    const std::string of_kernels = base::to_hex(base::xxh128(text_of_variants(supply, one.seed)));
    CAPTURE(fmt::format("{{\"{}\", {}, {}, \"{}\", \"{}\"}},  // {}", one.lane, one.seed, one.index,
                        of_task, of_kernels, to_text(what)));
    CHECK(of_task == one.task);
    CHECK(of_kernels == one.kernels);
  }
}

TEST_CASE("every lane with a grammar has such addresses") {
  for (const env::lane* const lane : env::all_lanes()) {
    CAPTURE(lane->name);
    const bool has = std::any_of(golden.begin(), golden.end(),
                                 [&](const golden_draw& one) { return one.lane == lane->name; });
    CHECK(has == (lane->grammar != nullptr));
  }
}
