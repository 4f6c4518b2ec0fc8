// Protocols and baselines of modules on a GPU, from request to verdict, on a device that is none.
#include <algorithm>

#include "env/judge/judgement.hpp"
#include "tests/env/gpu/layer_switches.hpp"
#include "tests/env/pytorch/gpu/fake_fixture.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;

namespace {

constexpr std::array others{protocol_cuda_l1_train, protocol_cuda_l1_report, protocol_kernelbench};

measure_name by(std::string_view protocol, baseline_choice over = baseline_choice::eager) {
  return {std::string(protocol), over};
}

verdict measured(const std::string& source, const measure_name& how,
                 const std::shared_ptr<const task>& of = task_of(layered)) {
  return judged_by_fake(source, true, of, how);
}

const check_result& timed_outputs(const verdict& v) {
  const auto timed = std::ranges::find(v.checks, "timed outputs", &check_result::name);
  REQUIRE(timed != v.checks.end());
  return *timed;
}

/// Right in its first calls, which are those of the checks, and wrong from then on.
std::string wrong_later(int from_call) {
  return candidate("y", "",
                   "        y = " + std::string(honest) +
                       "\n        self.calls = getattr(self, 'calls', 0) + 1\n" +
                       fmt::format("        if self.calls > {}: y = y * 1.5\n", from_call));
}

/// A task whose reference knows how it is called.
std::shared_ptr<const task> task_with(const std::string& head, const std::string& in_forward,
                                      const std::string& result = "x * 2") {
  return task_of(head +
                 "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n" +
                 in_forward + "        return " + result +
                 "\n\ndef get_inputs():\n    return [torch.rand(64, 64)]\n");
}
const char* const doubles =
    "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
    "        return x + x\n";

}  // namespace

TEST_CASE("an honest module is timed by every protocol, and one that is slow is told") {
  if (device_that_is_none() == nullptr) return;
  for (const auto protocol : others) {
    CAPTURE(protocol);
    const verdict v = measured(candidate(honest), by(protocol));
    CAPTURE(v.detail);
    // On a busy machine cuda_l1_train/1 has buckets that differ, and still no wrong result.
    CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
    CHECK(timed_outputs(v).pass);
    // Only a claim that could be measured twice is called confirmed or not.
    const bool twice = looks_twice(find_protocol(protocol).value());
    CHECK(v.confirmed.has_value() == (twice && v.kind == verdict_kind::ok));
    if (protocol == protocol_cuda_l1_train) continue;
    // Calls of 5 ms are far above what it takes to deliver them, and a pause of 20 ms above these:
    // no machine is so busy that one of them is noisy.
    const verdict slow = measured(
        "import time\nimport torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
        "        time.sleep(0.02)\n        return x + x\n",
        by(protocol), task_with("import time\n", "        time.sleep(0.005)\n"));
    CAPTURE(slow.detail);
    REQUIRE(name_of(slow.kind) == "ok");
    CHECK(slow.speedup_e2.value_or(1000) < 50);
  }
}

TEST_CASE("a call that deliveries hide is noisy, however even it is, and nothing is charged") {
  if (device_that_is_none() == nullptr) return;
  // As on a host that takes the core away, the reference's deliveries are late by up to 12 ms. Half
  // of that is taken off each call, so that nothing is left of the candidate's, evenly. The process
  // has other models later.
  const std::string late =
      "import random, sys, time\n"
      "def deliver_late(which):\n"
      "    plain = which.deliver_again\n"
      "    def late(self):\n"
      "        if getattr(self.model, 'late', False):\n"
      "            time.sleep(0.012 * random.random())\n"
      "        return plain(self)\n"
      "    which.deliver_again = late\n";
  const std::string on_its_own_class =
      "        self.late = True\n"
      "        child = sys.modules['module_child']\n"
      "        if not hasattr(child, 'is_late'):\n"
      "            child.is_late = True\n"
      "            for one in list(vars(child).values()):\n"
      "                if isinstance(one, type) and 'deliver_again' in vars(one):\n"
      "                    deliver_late(one)\n";
  const std::string sleeps = "        time.sleep(0.02)\n";
  const auto module_of = [](const std::string& seconds) {
    return "import time\nimport torch\n\nclass ModelNew(torch.nn.Module):\n"
           "    def forward(self, x):\n        time.sleep(" +
           seconds + ")\n        return x + x\n";
  };
  const auto disturbed = task_with(late, on_its_own_class + sleeps);
  verdict hidden;
  for (int tries = 0; tries < 5 && !contains(hidden.detail, "too short to be told"); ++tries) {
    hidden = measured(module_of("0.001"), by(protocol_paired), disturbed);
    CAPTURE(hidden.detail);
    // On a busy machine the reference may be uneven, too.
    CHECK(name_of(hidden.kind) == "noisy");
  }
  CAPTURE(hidden.detail);
  REQUIRE(contains(hidden.detail, "too short to be told"));
  REQUIRE(hidden.time);
  CHECK(hidden.time->log_ratio_e9.at(1) > 1'000'000'000);  // what it would have claimed
  // The control: a longer call is seen, with late deliveries and without.
  for (const auto& of : {disturbed, task_with("import time\n", sleeps)}) {
    const verdict seen = measured(module_of("0.1"), by(protocol_paired), of);
    CAPTURE(seen.detail);
    CHECK_FALSE(contains(seen.detail, "too short to be told"));
  }
}

TEST_CASE("every protocol compares each call that it times") {
  if (device_that_is_none() == nullptr) return;
  for (const auto protocol : others) {
    CAPTURE(protocol);
    const verdict v = measured(wrong_later(40), by(protocol));
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "wrong_value");
    CHECK(contains(v.detail, "a timed call is wrong"));
    // The control.
    turn(check_layer::values, false);
    const verdict through = measured(wrong_later(40), by(protocol));
    turn(check_layer::values, true);
    CAPTURE(through.detail);
    CHECK((through.kind == verdict_kind::ok || through.kind == verdict_kind::noisy));
  }
}

TEST_CASE("kernelbench/1 has calls one by one and one hundred of them; the others windows") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const verdict v = measured(candidate(honest), by(protocol_kernelbench));
  REQUIRE(name_of(v.kind) == "ok");
  REQUIRE(v.time);
  CHECK(v.time->windows == 100);
}

TEST_CASE("a baseline of CUDA graphs is captured, stays, and is measured over") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto how = by(protocol_paired, baseline_choice::graph);
  const auto process = [&] {
    const auto& kept = (*with->manager->get(task_of(layered)))->processes;
    CHECK(kept.baseline_is == baseline_choice::graph);
    return kept.baseline ? kept.baseline->child().pid() : -1;
  };
  int pid = 0;
  for (int round = 0; round < 2; ++round) {
    const verdict v = measured(candidate(honest), how);
    CAPTURE(v.detail);
    CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
    CHECK(timed_outputs(v).pass);
    CHECK((round == 0 || pid == process()));
    pid = process();
    CHECK(pid > 0);
  }
  CHECK(name_of(measured(wrong_later(40), how).kind) == "wrong_value");
  // It ends with its task.
  CHECK(name_of(judged_by_fake(doubles, false, task_with("", "")).kind) == "ok");
  CHECK((*with->manager->get(task_of(layered)))->processes.baseline == nullptr);
}

TEST_CASE("a baseline beyond a narrow limit needs f64, for which the candidate may have to end") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  // It rounds unless it is compiled. The candidate rounds alike, so that nothing has needed f64
  // when the baseline does. The first call in f64 fails: beside the candidate.
  const char* const rounds = "x.to(torch.bfloat16).float() * 2";
  const auto of = task_of(
      std::string("import torch\n\ncalls = 0\n\nclass Model(torch.nn.Module):\n"
                  "    def forward(self, x):\n        global calls\n"
                  "        if x.dtype == torch.float64:\n            calls += 1\n"
                  "            if calls == 1: raise RuntimeError('no memory is left')\n"
                  "            return x * 2\n"
                  "        if torch.compiler.is_compiling(): return x * 2\n        return ") +
      rounds + "\n\ndef get_inputs():\n    return [torch.rand(256, 258)]\n");
  const std::string alike = std::string("import torch\n\nclass ModelNew(torch.nn.Module):\n") +
                            "    def forward(self, x):\n        return " + rounds + "\n";
  CHECK(name_of(judged_by_fake(alike, false, of).kind) == "ok");
  CHECK_FALSE((*with->manager->get(of))->in_f64);
  const std::int64_t before = with->asked;
  const verdict v = measured(alike, by(protocol_kernelbench, baseline_choice::compile), of);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  CHECK(timed_outputs(v).pass);
  CHECK(with->asked - before >= 2);
  CHECK((*with->manager->get(of))->in_f64 == true);
}

TEST_CASE("over a baseline, too, a reference that is far from f64 judges what does as it does") {
  if (device_that_is_none() == nullptr) return;
  const auto of = task_of(
      "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
      "        return x * 2 if x.dtype == torch.float64 else torch.floor(x * 2)\n\n"
      "def get_inputs():\n    return [torch.rand(256, 262)]\n");
  const auto kind_of = [&](const std::string& result, baseline_choice over) {
    const verdict v = measured(
        "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
        "        return " +
            result + "\n",
        by(protocol_kernelbench, over), of);
    return std::string(name_of(v.kind));
  };
  for (const auto over : {baseline_choice::graph, baseline_choice::eager}) {
    CHECK(kind_of("torch.floor(x * 2)", over) == "ok");
    CHECK(kind_of("x * 2", over) == "invalid_reference");
  }
}

TEST_CASE("a baseline that cannot be made is a refusal that names it, and says why") {
  if (device_that_is_none() == nullptr) return;
  const auto how = by(protocol_kernelbench, baseline_choice::graph);
  const auto refuses = task_with("import torch\ntorch.refuses_graphs = True\n", "");
  const verdict refused = measured(doubles, how, refuses);
  CHECK(name_of(refused.kind) == "invalid_reference");
  CHECK(contains(refused.detail, "baseline graph cannot be made of this reference"));
  CHECK(contains(refused.detail, "when stream is capturing"));
  // The control: over eager the same reference is measured, and graphs of another one are.
  CHECK(name_of(measured(doubles, by(protocol_kernelbench), refuses).kind) == "ok");
  CHECK(name_of(measured(doubles, how, task_with("", "")).kind) == "ok");
}

TEST_CASE("torch.compile of a reference has its compilers, in its own process alone") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto how = by(protocol_kernelbench, baseline_choice::compile);
  const auto plain = task_with("", "");
  const verdict v = measured(doubles, how, plain);
  CAPTURE(v.detail);
  REQUIRE(name_of(v.kind) == "ok");
  CHECK((*with->manager->get(plain))->processes.baseline_is == baseline_choice::compile);

  // A candidate beside it starts no process.
  const std::string starts =
      "import subprocess\nsubprocess.run(['/bin/true'])\n" + std::string(doubles);
  const verdict forbidden = measured(starts, how, plain);
  CAPTURE(forbidden.detail);
  CHECK((forbidden.kind == verdict_kind::compile_error ||
         forbidden.kind == verdict_kind::runtime_error));

  // That it was compiled shows where it then gives something else, which is no baseline.
  const auto differs = task_with("", "        if torch.compiler.is_compiling(): return x * 3\n");
  const verdict refused = measured(doubles, how, differs);
  CAPTURE(refused.detail);
  CHECK(name_of(refused.kind) == "invalid_reference");
  CHECK(contains(refused.detail, "baseline compile gives other results than the reference does"));
  // The control.
  CHECK(name_of(measured(doubles, by(protocol_kernelbench), differs).kind) == "ok");
}
