// How far a candidate's results may lie from the reference's, on a device that is none: when the
// reference runs in f64 for it, and what becomes of a candidate that leaves it no memory.
#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "tests/env/pytorch/gpu/fake_fixture.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;

namespace {

/// A reference that doubles what it rounds, and rounds nothing in f64. Only its error there says
/// that a candidate which does not round is right, too. `fails`: which of its calls in f64, counted
/// from 1, raise. Another shape is another task, of which nothing is known yet.
std::shared_ptr<const task> rounding_task(const std::string& rounded, const std::string& shape,
                                          const std::string& fails = "== 0") {
  return task_of(
      "import torch\n\ncalls = 0\n\nclass Model(torch.nn.Module):\n"
      "    def forward(self, x):\n        global calls\n"
      "        if x.dtype == torch.float64:\n            calls += 1\n"
      "            if calls " +
      fails +
      ":\n                raise RuntimeError('no memory is left')\n"
      "            return x * 2\n"
      "        return " +
      rounded + " * 2\n\ndef get_inputs():\n    return [torch.rand(" + shape + ")]\n");
}

/// One of 40 results: hardly one content of eight shows that.
constexpr const char* seldom_rounded = "torch.where(x > 0.975, torch.floor(x * 32) / 32, x)";

std::string module_that_returns(const std::string& result) {
  return "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
         "        return " +
         result + "\n";
}

}  // namespace

TEST_CASE("a reference that does not run in f64 beside a candidate is asked again without it") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  // The task has results enough for one content (contents_for_limit).
  struct seen {
    std::string kind;
    std::int64_t processes;
    std::optional<bool> in_f64;
  };
  const auto judge = [&](const std::string& calls) {
    const auto of = rounding_task("x.to(torch.bfloat16).float()", "256, 256", calls);
    const std::int64_t before = with->asked;
    const verdict v = judged_by_fake(module_that_returns("x + x"), false, of);
    CAPTURE(v.detail);
    const auto task = with->manager->get(of);
    REQUIRE(task);
    return seen{std::string(name_of(v.kind)), with->asked - before, (*task)->in_f64};
  };
  const seen never = judge("== 0"), once = judge("== 1"), always = judge(">= 1");
  CHECK(never.kind == "ok");
  CHECK(never.processes == 1);
  CHECK(never.in_f64 == true);
  // The memory was the candidate's: limits are as they would have been.
  CHECK(once.kind == "ok");
  CHECK(once.processes == 2);
  CHECK(once.in_f64 == true);
  // It was not: limits are narrow then, and what lies beyond is wrong.
  CHECK(always.kind == "wrong_value");
  CHECK(always.processes == 1);
  CHECK(always.in_f64 == false);
}

TEST_CASE("the reference runs in f64 only for what lies beyond a narrow limit") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto rounding = rounding_task("x.to(torch.bfloat16).float()", "128, 512");
  const auto in_f64 = [&] {
    const auto task = with->manager->get(rounding);
    REQUIRE(task);
    const auto& cases = (*task)->cases;
    CHECK(std::ranges::count(cases, "nominal", &module_case::family) == 3);
    return std::ranges::count_if(cases,
                                 [](const module_case& one) { return one.limit.has_value(); });
  };
  // The same roundings.
  const verdict alike =
      judged_by_fake(module_that_returns("x.to(torch.bfloat16).float() * 2"), false, rounding);
  CAPTURE(alike.detail);
  CHECK(name_of(alike.kind) == "ok");
  CHECK(in_f64() == 0);
  const verdict exact = judged_by_fake(module_that_returns("x + x"), false, rounding);
  CAPTURE(exact.detail);
  CHECK(name_of(exact.kind) == "ok");
  CHECK(in_f64() == static_cast<std::ptrdiff_t>(module_families.size()) + 1);
  CHECK(name_of(judged_by_fake(module_that_returns("x * 2.1"), false, rounding).kind) ==
        "wrong_value");
}

TEST_CASE("a reference that is far from what it computes judges only what does as it does") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  // Results are off by up to 1, and 1.2 at the root mean square: too much (calibrated).
  const auto coarse = rounding_task("torch.floor(x * 2) / 2", "256, 257");
  const auto judged = [&](const std::string& result) {
    return std::string(name_of(judged_by_fake(module_that_returns(result), false, coarse).kind));
  };
  // Whoever comes before.
  for (int round = 0; round < 2; ++round) {
    CHECK(judged("torch.floor(x * 2)") == "ok");
    CHECK(judged("x + x") == "invalid_reference");
    CHECK(judged("x * 3") == "invalid_reference");
  }
  const auto task = with->manager->get(coarse);
  REQUIRE(task);
  CHECK((*task)->cannot_widen);
}

TEST_CASE("a reference that refuses f64 by an assertion is judged by a narrow limit") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto asserting = task_of(
      "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
      "        assert x.dtype == torch.float32, x.dtype\n        return x * 2\n\n"
      "def get_inputs():\n    return [torch.rand(256, 258)]\n");
  const auto judged = [&](const std::string& result) {
    const verdict v = judged_by_fake(module_that_returns(result), false, asserting);
    CAPTURE(v.detail);
    return std::string(name_of(v.kind));
  };
  CHECK(judged("x + x") == "ok");
  CHECK(judged("x * 3") == "wrong_value");
}

TEST_CASE("memory that contents lack beside a candidate is no fault of the host") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  // Of the calls of get_inputs in a process, those from here on find none.
  std::map<std::string, std::string> told;
  for (int first : {1, 2, 3, 4, 6, 8, 10, 12, 16, 24}) {
    const auto subject = task_of(fmt::format(
        "import torch\n\ncalls = 0\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x * 2\n\n"
        "def get_inputs():\n    global calls\n    calls += 1\n"
        "    if calls >= {}:\n        raise torch.OutOfMemoryError('no memory is left')\n"
        "    return [torch.rand(256, {})]\n",
        first, 300 + first));
    const verdict v = judged_by_fake(module_that_returns("x + x"), true, subject);
    CAPTURE(first);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) != "infra_error");
    told[std::string(name_of(v.kind))] = v.detail;
  }
  // The first, as for any task whose reference needs too much; later ones beside a candidate.
  REQUIRE(told.contains("unsupported"));
  CHECK(contains(told["unsupported"], "too little memory for the reference beside the candidate"));
}

TEST_CASE("a limit of few results is found on more contents when one lies beyond it") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto seldom = rounding_task(seldom_rounded, "2, 4");
  const verdict exact = judged_by_fake(module_that_returns("x + x"), true, seldom);
  CAPTURE(exact.detail);
  CHECK((exact.kind == verdict_kind::ok || exact.kind == verdict_kind::noisy));
  const auto task = with->manager->get(seldom);
  REQUIRE(task);
  CHECK((*task)->is_widened);
  CHECK((*task)->cases.front().limit->at(0).atol > 0.01);
}

TEST_CASE(
    "a candidate whose timed results lie beyond a narrow limit is timed again by the wider one") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  // As the reference in its checks, and exact from then on.
  const auto later = [](const std::string& result) {
    return "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
           "        self.calls = getattr(self, 'calls', 0) + 1\n"
           "        if self.calls < 16: return x.to(torch.bfloat16).float() * 2\n        return " +
           result + "\n";
  };
  const auto of = rounding_task("x.to(torch.bfloat16).float()", "256, 259");
  REQUIRE(name_of(judged_by_fake(later("x + x"), false, of).kind) == "ok");
  CHECK_FALSE((*with->manager->get(of))->in_f64);
  const verdict exact = judged_by_fake(later("x + x"), true, of);
  CAPTURE(exact.detail);
  CHECK((exact.kind == verdict_kind::ok || exact.kind == verdict_kind::noisy));
  CHECK((*with->manager->get(of))->in_f64 == true);
  CHECK(std::ranges::count_if(exact.checks, [](const check_result& one) {
          return one.name == "timed outputs" && !one.pass;
        }) == 0);
  // The control.
  CHECK(name_of(judged_by_fake(later("x * 2.1"), true, of).kind) == "wrong_value");
}

TEST_CASE("a measurement that begins again has no contents that its process has seen") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  // Exact after many timed calls, and wrong where many contents have come twice. Hidden contents of
  // windows that do not count do, some.
  const std::string remembers =
      "import torch\n\nclass ModelNew(torch.nn.Module):\n    def __init__(self):\n"
      "        super().__init__()\n        self.calls, self.twice, self.seen = 0, 0, set()\n\n"
      "    def forward(self, x):\n        self.calls += 1\n"
      "        key = (float(x[0, 0]), float(x[1, 1]))\n"
      "        self.twice += key in self.seen\n        self.seen.add(key)\n"
      "        if self.twice > 60: return x * 3\n"
      "        if self.calls < 150: return x.to(torch.bfloat16).float() * 2\n"
      "        return x + x\n";
  const auto of = rounding_task("x.to(torch.bfloat16).float()", "256, 261");
  const std::int64_t before = with->asked;
  const verdict v = judged_by_fake(remembers, true, of);
  CAPTURE(v.detail);
  CHECK(with->asked - before >= 2);
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
  CHECK((*with->manager->get(of))->in_f64 == true);
}

TEST_CASE("a candidate that is ended to find a limit is timed again from its beginning") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  // Its second call in f64 fails: of a hidden content, or of the first of more contents.
  const auto seldom = rounding_task(seldom_rounded, "8", "== 2");
  const std::int64_t before = with->asked;
  const verdict exact = judged_by_fake(module_that_returns("x + x"), true, seldom);
  CAPTURE(exact.detail);
  CHECK((exact.kind == verdict_kind::ok || exact.kind == verdict_kind::noisy));
  CHECK(with->asked - before >= 2);
  const auto task = with->manager->get(seldom);
  REQUIRE(task);
  CHECK((*task)->in_f64 == true);
  CHECK((*task)->is_widened);
  // No check is told twice.
  CHECK(std::ranges::count(exact.checks, "one element changed", &check_result::name) <= 1);
}

TEST_CASE("a convolution may be computed in TF32 where torch's settings allow it, a product not") {
  if (device_that_is_none() == nullptr) return;
  const std::string imports =
      "import torch\nimport torch.nn as nn\nfrom module_device_of_gpus import Tf32Convolutions\n";
  const auto module_of = [&](const std::string& name, const std::string& layer,
                             const std::string& settings, const std::string& result) {
    return imports + settings + "\n\nclass " + name +
           "(nn.Module):\n    def __init__(self):\n"
           "        super().__init__()\n        self.layer = " +
           layer + "\n\n    def forward(self, x):\n" + result +
           "\n\ndef get_inputs():\n    return [torch.rand(4, 8, 16, 16)]\n";
  };
  const std::string plain = "        return self.layer(x)",
                    coarse = "        return self.layer(Tf32Convolutions.cut(x))";
  const std::string conv = "nn.Conv2d(8, 8, 3)", product = "nn.Linear(16, 16)",
                    strict = "torch.backends.cudnn.allow_tf32 = False";
  const auto kind_of = [&](const std::string& layer, const std::string& settings) {
    const auto of = task_of(module_of("Model", layer, settings, plain));
    return std::string(
        name_of(judged_by_fake(module_of("ModelNew", layer, "", coarse), false, of).kind));
  };
  CHECK(kind_of(conv, "") == "ok");
  CHECK(kind_of(product, "") == "wrong_value");
  CHECK(kind_of(conv, strict) == "wrong_value");
}

TEST_CASE("a convolution may cut its operands to TF32, or round them, on every content") {
  if (device_that_is_none() == nullptr) return;
  const auto module_of = [](const std::string& name, int channels, const std::string& operands) {
    return fmt::format(
        "import torch\nimport torch.nn as nn\nfrom module_device_of_gpus import "
        "Tf32Convolutions\n\n"
        "def six_bits(x):\n    return (x.view(torch.int32) & ~0x1FFFF).view(torch.float32)\n\n"
        "class {}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Conv2d({}, 8, 3)\n\n    def forward(self, x):\n"
        "        return self.layer._conv_forward({})\n\n"
        "def get_inputs():\n    return [torch.rand(4, {}, 16, 16)]\n",
        name, channels, operands, channels);
  };
  // Of a constant the error of all products has one sign. Each task has a constant of its own.
  for (int channels = 3; channels < 15; ++channels) {
    CAPTURE(channels);
    const auto of = task_of(module_of("Model", channels, "x, self.layer.weight, self.layer.bias"));
    // What is cut to six bits is the control.
    for (const std::string how : {"Tf32Convolutions.cut", "Tf32Convolutions.rounded", "six_bits"}) {
      CAPTURE(how);
      const std::string operands =
          fmt::format("{}(x), {}(self.layer.weight.detach()), self.layer.bias", how, how);
      const verdict v = judged_by_fake(module_of("ModelNew", channels, operands), false, of);
      CAPTURE(v.detail);
      CHECK(name_of(v.kind) == (how == "six_bits" ? "wrong_value" : "ok"));
    }
  }
}
