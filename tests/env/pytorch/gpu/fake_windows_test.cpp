// Timed windows of a module on a device that is none: who hears of them, and which pairs count.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include <sched.h>
#include <sys/resource.h>

#include "base/file.hpp"
#include "support/may_come_first.hpp"
#include "tests/env/gpu/layer_switches.hpp"
#include "tests/env/pytorch/gpu/fake_fixture.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;

TEST_CASE("who asks hears of each window, of calls and of deliveries, on either side") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  std::map<std::pair<bool, bool>, int> heard;
  std::size_t calls = 0;
  bool adds_up = true, comes_first = true;
  const bool may = may_come_first();
  with->options.after_window = [&](bool candidate, bool of_calls, const device_window& took) {
    ++heard[{candidate, of_calls}];
    calls = took.each.calls.size();
    const auto sum = [](std::span<const base::nanoseconds_t> of) {
      return static_cast<double>(std::reduce(of.begin(), of.end(), base::nanoseconds_t{0}));
    };
    REQUIRE_FALSE(took.each.looks.empty());
    // Looks between calls count, or the device had that time for nothing.
    const std::span<const base::nanoseconds_t> looks = took.each.looks;
    const double between = of_calls ? sum(looks.subspan(1, looks.size() - 2)) : 0;
    const double least = sum(took.each.calls) + between;
    adds_up = adds_up && took.begun_ns > 0 && least > 0 && least <= took.answer_ns;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    REQUIRE(::sched_getaffinity(0, sizeof cores, &cores) == 0);
    const bool is_there = CPU_COUNT(&cores) == 1 && CPU_ISSET(with->core.core(), &cores);
    const bool is_first = !may || ::getpriority(PRIO_PROCESS, 0) == -15;
    comes_first = comes_first && is_there && is_first;
  };
  const verdict v = judged_by_fake(candidate(honest), true);
  with->options.after_window = nullptr;
  CAPTURE(v.detail);
  for (const bool candidate : {false, true}) {
    CHECK(heard[{candidate, true}] >= 8);
    CHECK(heard[{candidate, false}] >= 3);
  }
  CHECK(heard[{false, true}] == heard[{true, true}]);
  CHECK(calls >= 2);
  CHECK(adds_up);
  CHECK(comes_first);
}

TEST_CASE("half of the pairs end a call early, both of their windows alike") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  std::vector<std::size_t> lengths;
  with->options.after_window = [&](bool, bool of_calls, const device_window& took) {
    if (of_calls) lengths.push_back(took.each.calls.size());
  };
  const verdict v = judged_by_fake(candidate(honest), true);
  with->options.after_window = nullptr;
  CAPTURE(v.detail);
  REQUIRE(lengths.size() >= 16);
  const auto [least, most] = std::ranges::minmax(lengths);
  std::size_t apart = 0, pairs_of_least = 0;
  for (std::size_t i = 0; i + 1 < lengths.size(); i += 2) {
    apart += lengths[i] == lengths[i + 1] ? 0 : 1;
    pairs_of_least += lengths[i] == least ? 1 : 0;
  }
  CHECK(apart == 0);
  if (most < 4) {
    CHECK(least == most);
    return test::skip("a window has fewer than four calls here");
  }
  // Of a coin: beyond five standard deviations.
  const double pairs = static_cast<double>(lengths.size()) / 2;
  if (pairs < 24) return test::skip("there was time for few pairs");
  CHECK(least == most - 1);
  CHECK(std::abs(static_cast<double>(pairs_of_least) - pairs / 2) <= 5 * std::sqrt(pairs) / 2);
}

/// A call of some 0.2 ms.
constexpr const char* deep = R"(
class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(features, features) for _ in range(24))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x
)";

TEST_CASE("a candidate stands still while the reference is called, and else it makes that slower") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto subject = task_of(std::string("import torch\nimport torch.nn as nn\n") + deep + R"(

def get_inputs():
    return [torch.rand(16, 48)]


def get_init_inputs():
    return [48]
)");
  const auto file = base::read_file(source_dir() / "tests/hostile/pytorch/slows_the_reference.py");
  REQUIRE(file.has_value());
  std::string slows = file->substr(0, file->find("class ModelNew")) + deep;
  slows.replace(slows.find("class Model("), 12, "class ModelNew(");
  const auto claimed = [&] {
    const verdict v = judged_by_fake(slows, true, subject);
    MESSAGE(name_of(v.kind) << ", " << v.speedup_e2.value_or(-1) << " / 100: " << v.detail);
    CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
    return v.kind == verdict_kind::ok ? v.speedup_e2.value_or(0) : 0;
  };
  CHECK(claimed() <= 105);
  // The control. The evaluator waits for no device here, so that there is little to slow down.
  turn(check_layer::still, false);
  std::int64_t most = claimed();
  for (int i = 0; i < 4 && most <= 115; ++i)
    most = std::max(most, claimed());
  turn(check_layer::still, true);
  if (most == 0) return test::skip("all were noisy");
  CHECK(most > 115);
}

TEST_CASE("pairs on a core that was shared do not count, if enough are calm") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  core_pace_ns();  // so that something is known of a core of its own
  // Where the last of so many pairs looks shared; 0: none does. None: there was no time.
  const auto left_out_of = [&](int every) -> std::optional<bool> {
    int windows = 0;
    with->options.after_window = [&](bool, bool of_calls, const device_window&) {
      windows += of_calls ? 1 : 0;
    };
    with->options.look = [&]() -> base::nanoseconds_t {
      constexpr base::nanoseconds_t calm_ns = 1, shared_ns = 1'000'000'000;
      return every > 0 && windows / 2 % every == every - 1 ? shared_ns : calm_ns;
    };
    const verdict v = judged_by_fake(candidate(honest), true);
    with->options.after_window = nullptr;
    with->options.look = core_pace_ns;
    CAPTURE(v.detail);
    const auto timed = std::ranges::find(v.checks, "timed outputs", &check_result::name);
    REQUIRE(timed != v.checks.end());
    CHECK(timed->pass);
    if (!contains(timed->detail, "calls of each")) return std::nullopt;
    return contains(timed->detail, " pairs left out");
  };
  CHECK_FALSE(left_out_of(0).value_or(false));
  CHECK(left_out_of(3).value_or(true));
  CHECK_FALSE(left_out_of(1).value_or(false));
}
