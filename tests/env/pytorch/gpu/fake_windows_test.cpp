// Timed windows of a module on a device that is none: who hears of them, and which pairs count.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <sched.h>
#include <sys/resource.h>

#include "base/file.hpp"
#include "env/runner/standing_process.hpp"
#include "support/may_come_first.hpp"
#include "support/process_called.hpp"
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
  REQUIRE(most >= 4);
  // Of a coin: beyond five standard deviations.
  const double pairs = static_cast<double>(lengths.size()) / 2;
  if (pairs < 24) return;  // a coin may have fallen to one side alone
  CHECK(least == most - 1);
  CHECK(std::abs(static_cast<double>(pairs_of_least) - pairs / 2) <= 5 * std::sqrt(pairs) / 2);
}

namespace {

/// Whether the candidate stood, at each wait for the device since its last window.
std::vector<bool> stood_at_waits;

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

std::shared_ptr<const task> deep_task() {
  return task_of(std::string("import torch\nimport torch.nn as nn\n") + deep + R"(

def get_inputs():
    return [torch.rand(16, 48)]


def get_init_inputs():
    return [48]
)");
}

/// What a file of tests/hostile/pytorch does around its model, around that one.
std::string around_deep(const std::string& name) {
  const auto file = base::read_file(source_dir() / "tests/hostile/pytorch" / (name + ".py"));
  REQUIRE(file.has_value());
  std::string source = file->substr(0, file->find("class ModelNew")) + deep;
  source.replace(source.find("class Model("), 12, "class ModelNew(");
  return source + "\nctypes.CDLL(None).prctl(15, b'a_candidate', 0, 0, 0)\n";  // its name
}

/// Whether a process computes or waits for a core.
bool is_running(int process) {
  const auto told = base::read_file(fmt::format("/proc/{}/stat", process), 4096);
  return told && told->find(") R ") != std::string::npos;
}

}  // namespace

TEST_CASE(
    "a candidate stands still where it is not asked, and gains nothing by what it does there") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto subject = deep_task();
  const std::string slows = around_deep("slows_the_reference");
  // How often it stood at a look at the core, before windows and between calls, and how often not.
  int stood = 0, ran = 0;
  with->options.look = [&] {
    if (const int process = process_called("a_candidate"); process > 0)
      ++(is_standing(process) ? stood : ran);
    return core_pace_ns();
  };
  const auto claimed = [&] {
    stood = ran = 0;
    const verdict v = judged_by_fake(slows, true, subject);
    MESSAGE(name_of(v.kind) << ", " << v.speedup_e2.value_or(-1) << " / 100, stood at " << stood
                            << " looks, ran at " << ran << ": " << v.detail);
    CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
    return v.kind == verdict_kind::ok ? v.speedup_e2.value_or(0) : 0;
  };
  CHECK(claimed() <= 105);
  CHECK(stood > 0);
  CHECK(ran > 0);  // between its own calls
  // The control. What it claims then depends on what else runs on this host: gpu_modules_test asks.
  turn(check_layer::still, false);
  (void)claimed();
  turn(check_layer::still, true);
  with->options.look = core_pace_ns;
  CHECK(stood == 0);
  CHECK(ran > 0);
}

TEST_CASE(
    "what a candidate left on the device is waited for before it is stopped, and behind that") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  void* library = ::dlopen((program_dir() / "libquern_fake_device.so").c_str(), RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto hear =
      reinterpret_cast<void (*)(void (*)())>(::dlsym(library, "quern_fake_behind_waits"));
  const bool is_there = hear != nullptr;
  REQUIRE(is_there);
  int windows = 0, told = 0;
  with->options.after_window = [&](bool candidate, bool of_calls, const device_window&) {
    if (candidate && of_calls) {
      ++windows;
      // Before its question it stood. Behind its answer are the copy's wait, then others.
      told += std::ranges::count(stood_at_waits, false) > 0 && stood_at_waits.back() ? 1 : 0;
    }
    stood_at_waits.clear();
  };
  hear([] {
    if (const int process = process_called("a_candidate"); process > 0)
      stood_at_waits.push_back(is_standing(process));
  });
  const std::string named = around_deep("looks_for_questions");
  const verdict v = judged_by_fake("import ctypes\nimport torch\nimport torch.nn as nn\n" +
                                       named.substr(named.find("class ModelNew")),
                                   true, deep_task());
  hear(nullptr);
  with->options.after_window = nullptr;
  CAPTURE(v.detail);
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
  CHECK(windows >= 8);
  CHECK(told == windows);
}

TEST_CASE("a candidate that looks for questions without sleeping gains nothing by it") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const std::string looks = around_deep("looks_for_questions");
  const auto honest_one = looks.substr(0, looks.find("module_child.Child.run = run")) +
                          looks.substr(looks.find("class ModelNew"));
  // At looks at the core, before windows and between calls.
  int running = 0;
  with->options.look = [&] {
    if (const int process = process_called("a_candidate"); process > 0)
      running += is_running(process) ? 1 : 0;
    return core_pace_ns();
  };
  const auto judged_so = [&](const std::string& source) {
    running = 0;
    const verdict v = judged_by_fake(source, true, deep_task());
    MESSAGE(name_of(v.kind) << ", " << v.speedup_e2.value_or(-1) << " / 100, ran at " << running
                            << " looks: " << v.detail);
    CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
    return v.speedup_e2.value_or(0);
  };
  CHECK(judged_so(looks) <= 105);
  CHECK(running > 0);
  // Who sleeps until it is asked does not run there.
  const int seen = running;
  (void)judged_so(honest_one);
  CHECK(2 * running < seen);
  with->options.look = core_pace_ns;
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
