// Tasks of modules on a device that is none: what is known of them without it, what a check says of
// them, and what stays from one to the next.
#include <algorithm>
#include <string>

#include "env/lanes/pytorch/gpu/device_module_checker.hpp"
#include "tests/env/pytorch/gpu/fake_fixture.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;

TEST_CASE("what a task is called with is known without a device, as its evaluation knows it") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto subject = task_of(layered);
  const auto ahead = with->sheets->of(*subject);
  CAPTURE(ahead ? "" : ahead.error().message);
  REQUIRE(ahead);
  auto task = with->manager->get(subject);
  REQUIRE(task);
  CHECK(ahead->init == (*task)->sheet.init);
  CHECK(base::dump(arguments_json(*ahead)) == base::dump(arguments_json((*task)->sheet)));
  CHECK(base::dump(weights_json(*ahead)) == base::dump(weights_json((*task)->sheet)));
  const auto broken = with->sheets->of(*task_of("class Model:\n    pass\n"));
  CHECK(!broken);
  CHECK(with->sheets->of(*subject));  // it goes on
}

TEST_CASE("a reference that keeps state is for cores") {
  if (device_that_is_none() == nullptr) return;
  const char* const counting = R"(
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls

def get_inputs():
    return [torch.rand(8, 8)]
)";
  const verdict v = judged_by_fake(candidate(honest), false, task_of(counting));
  CHECK(name_of(v.kind) == "unsupported");
  CHECK(contains(v.detail, "keeps state"));
}

TEST_CASE("a task without an input tensor is refused there, too") {
  if (device_that_is_none() == nullptr) return;
  const auto source_of = [](const std::string& name, const std::string& inputs) {
    return "import torch\n\nclass " + name + "(torch.nn.Module):\n" +
           "    def __init__(self):\n        super().__init__()\n"
           "        self.table = torch.rand(24, 32)\n"
           "    def forward(self, *numbers):\n        return self.table * 2\n\n"
           "def get_inputs():\n    return " +
           inputs + "\n";
  };
  const auto judged_with = [&](const std::string& inputs, bool degenerate) {
    task subject = *task_of(source_of("Model", inputs));
    subject.degenerate = degenerate;
    return judged_by_fake(source_of("ModelNew", inputs), false,
                          std::make_shared<const task>(subject));
  };
  for (const char* const inputs : {"[]", "[0.5, 3]"}) {
    const verdict v = judged_with(inputs, false);
    CAPTURE(inputs);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "invalid_reference");
    CHECK(contains(v.detail, "get_inputs gives no tensor"));
    // The control: it is meant.
    const verdict meant = judged_with(inputs, true);
    CAPTURE(meant.detail);
    CHECK(name_of(meant.kind) == "ok");
  }
}

TEST_CASE("tasks are checked on the device that they are judged on") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  device_module_checker checker(*with);
  const auto rules = [&](const std::string& reference, bool whole = true) {
    const task what = *task_of(reference);
    const auto report =
        whole ? checker.check(what, 1) : checker.check_quickly(what, 1, plain_baselines::leave_out);
    CAPTURE(report ? "" : report.error().message);
    REQUIRE(report);
    std::string text;
    for (const task_finding& one : report->findings)
      if (one.fatal) text += (text.empty() ? "" : " ") + one.rule;
    return text;
  };
  const auto module_with = [](const std::string& forward) {
    return "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x, y):\n"
           "        return " +
           forward + "\n\ndef get_inputs():\n    return [torch.rand(16, 16), torch.rand(16, 16)]\n";
  };
  const auto good = checker.check(*task_of(layered), 1);
  REQUIRE(good);
  CHECK(good->ok());
  CHECK(good->baseline_ns > 0);
  CHECK(good->floor_ns > 0);
  CHECK(good->worst_error > 0);
  CHECK(good->worst_error < 0.5);
  CHECK(std::ranges::any_of(
      good->facts, [](const std::string& fact) { return contains(fact, "timed window on this"); }));
  CHECK(rules(module_with("x * y")).empty());
  CHECK(rules(module_with("x * 2")) == "ignored_input");
  CHECK(rules(module_with("x * 2"), false).empty());
  CHECK(rules(module_with("x * 0 + y * 0")) == "constant_output ignored_input ignored_input");
  CHECK(rules(module_with("no_such_name")) == "failed");
  CHECK(
      rules("import torch\n\nclass Model(torch.nn.Module):\n"
            "    def __init__(self):\n        super().__init__()\n        self.calls = 0\n"
            "    def forward(self, x):\n        self.calls += 1\n        return x * self.calls\n\n"
            "def get_inputs():\n    return [torch.rand(8, 8)]\n") == "skipped");
  // In f64 it computes something else; it runs on one content and not on another; on none.
  const auto in_f64 = [](const std::string& does) {
    return "import torch\n\ncalls = 0\n\nclass Model(torch.nn.Module):\n"
           "    def forward(self, x):\n        global calls\n"
           "        if x.dtype != torch.float64: return x * 2\n        calls += 1\n        " +
           does + "\n        return x * 2\n\ndef get_inputs():\n    return [torch.rand(8, 9)]\n";
  };
  for (const bool whole : {true, false})
    CHECK(rules(in_f64("if calls: return x * 3"), whole) == "failed");
  CHECK(rules(in_f64("if calls > 1: return x * 3")) == "failed");
  CHECK(rules(in_f64("if calls == 2: raise RuntimeError('no memory')")) == "skipped");
  const auto none = checker.check(*task_of(in_f64("raise RuntimeError('no memory')")), 1);
  REQUIRE(none);
  CHECK(std::ranges::any_of(none->findings, [](const task_finding& one) {
    return one.rule == "tolerance" && !one.fatal;
  }));
  // What was checked is judged as before.
  CHECK(name_of(judged_by_fake(candidate(honest)).kind) == "ok");
}

TEST_CASE("two tasks share the evaluator's memory, and their processes find it again") {
  if (device_that_is_none() == nullptr) return;
  const auto large = task_of(R"(
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.rand(1024, 1024)]
)");
  const std::string doubles =
      "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
      "        return x + x\n";
  for (int i = 0; i < 2; ++i) {
    const verdict other = judged_by_fake(doubles, false, large);
    CAPTURE(other.detail);
    CHECK(name_of(other.kind) == "ok");
    CHECK(name_of(judged_by_fake(candidate(honest)).kind) == "ok");
  }
}

TEST_CASE("a task that is prepared ahead is not prepared again when it is judged") {
  auto* s = device_that_is_none();
  if (s == nullptr) return;
  evaluation_request request;
  request.subject = task_of(R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 3
def get_inputs():
    return [torch.randn(3, 41)]
def get_init_inputs():
    return []
)");
  const auto learnt_s = [&] { return s->steps["task: two contents differ"]; };
  const double before = learnt_s();
  CHECK(s->prepare_ahead(request));
  const double once = learnt_s();
  CHECK(once > before);
  CHECK(s->prepare_ahead(request));
  CHECK(judged_by_fake("import torch\nclass ModelNew(torch.nn.Module):\n"
                       "    def forward(self, x):\n        return 3 + x\n",
                       false, request.subject)
            .kind == verdict_kind::ok);
  CHECK(learnt_s() == once);

  evaluation_request broken;
  broken.subject = task_of(R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError("not this one")
def get_inputs():
    return [torch.randn(3, 43)]
def get_init_inputs():
    return []
)");
  CHECK_FALSE(s->prepare_ahead(broken));
}
