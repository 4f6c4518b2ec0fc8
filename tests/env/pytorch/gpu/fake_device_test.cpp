// An evaluation of a module on a GPU from task to verdict, on a device that is none: what the
// evaluator lends, asks, compares and charges. Its processes, their sandbox and Python are real.
#include <csignal>

#include <dlfcn.h>
#include <unistd.h>

#include "env/device/fake_nvml.hpp"
#include "env/lanes/pytorch/gpu/device_module_checker.hpp"
#include "tests/env/gpu/layer_switches.hpp"
#include "tests/env/pytorch/gpu/fake_fixture.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;
namespace fs = std::filesystem;

TEST_CASE("a right module is ok, is timed on content of its own, and its process stood ready") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const verdict first = judged_by_fake(candidate(honest));
  CAPTURE(first.detail);
  REQUIRE(name_of(first.kind) == "ok");
  CHECK(first.checks.size() >= 9);
  const verdict v = judged_by_fake(candidate(honest), true);
  CAPTURE(v.detail);
  // On a busy machine it has no time, and still no wrong result.
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
  const auto timed = std::ranges::find(v.checks, "timed outputs", &check_result::name);
  REQUIRE(timed != v.checks.end());
  CHECK(timed->pass);
  if (v.kind == verdict_kind::ok) CHECK(contains(v.checks.back().name, "behind the clock"));
  CHECK(with->stood_ready > 0);
}

TEST_CASE("a process that is waited for did not stand ready, and orders come by the batch") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  python_zygote& zygote = *with->manager->zygote().value();
  python_start how = device_start(false);
  // On a busy machine both may stand before they can be stopped: others are made then.
  for (int times = 1; times <= 20; ++times) {
    how.work_bytes = std::int64_t{times} << 20;  // none of those that stand has it
    zygote.prefork(how, 2, 2);
    zygote.set_paused(true);
    if (zygote.in_making().value() == 2) break;
  }
  REQUIRE(zygote.in_making().value() == 2);
  CHECK_FALSE(zygote.fork(how).value().stood_ready());
  CHECK(zygote.ready_children().value().size() == 1);
  CHECK(zygote.in_making().value() == 0);
  // One stands: not below one.
  zygote.prefork(how, 3, 1);
  CHECK(zygote.ready_children().value().size() == 1);
  zygote.prefork(how, 3, 2);
  CHECK(zygote.ready_children().value().size() == 3);
  CHECK(zygote.fork(how).value().stood_ready());
  with->manager->prefork();
}

TEST_CASE("what a candidate does wrong is its verdict") {
  if (device_that_is_none() == nullptr) return;
  const std::string computes = "        y = " + std::string(honest) + "\n";
  const auto with = [&](const std::string& lines, const std::string& result = "y") {
    return candidate(result, "", computes + lines);
  };
  const std::vector<std::pair<std::string, std::string>> rows{
      {candidate("torch.relu(self.linear(x)) * self.scale * factor * 1.01 + self.shift"),
       "wrong_value"},
      {with("        self.kept = getattr(self, 'kept', y)\n", "self.kept"), "wrong_value"},
      {with("", "y[:12]"), "wrong_shape"},
      {with("", "y.double()"), "wrong_dtype"},
      {with("        raise ValueError('no luck')\n"), "runtime_error"},
      {"import no_such_module\n" + candidate(honest), "compile_error"},
      {candidate("x[:, :32]",
                 "import module_child\nmodule_child.Child.deliver = lambda *a: None\n"),
       "wrong_value"},
      {"import torch\n" + candidate("torch.compile(self.linear)(x)"), "unsupported"},
  };
  for (const auto& [source, kind] : rows) {
    const verdict v = judged_by_fake(source);
    CAPTURE(source);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == kind);
  }
}

TEST_CASE(
    "references change in the same processes, and one that changes torch's settings has its own") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto pids = [&] {
    auto task = with->manager->get(task_of(layered));
    REQUIRE(task);
    return std::pair((*task)->processes.content->child().pid(),
                     (*task)->processes.reference->child().pid());
  };
  const auto module_that = [](const std::string& head, const std::string& result) {
    return head +
           "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        "
           "return " +
           result + "\n\ndef get_inputs():\n    return [torch.rand(8, 8)]\n";
  };
  const auto plain = task_of(module_that("", "x * 2"));
  const std::string doubles =
      "import torch\n\nclass ModelNew(torch.nn.Module):\n"
      "    def forward(self, x):\n        return x + x\n";
  const auto before = pids();
  for (int round = 0; round < 2; ++round) {
    // Back and forth: what is known of a task is taken up again with another module in between.
    const verdict other = judged_by_fake(doubles, false, plain);
    CAPTURE(other.detail);
    CHECK(name_of(other.kind) == "ok");
    CHECK(name_of(judged_by_fake(candidate(honest)).kind) == "ok");
    CHECK(name_of(judged_by_fake(doubles).kind) != "ok");
    CHECK(pids() == before);
  }
  const auto careless =
      task_of(module_that("import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n", "x * 2"));
  CHECK(name_of(judged_by_fake(doubles, false, careless).kind) == "ok");
  const auto after = pids();
  CHECK(after.first != before.first);
  CHECK(after.second != before.second);
  CHECK(name_of(judged_by_fake(candidate(honest)).kind) == "ok");
}

TEST_CASE("a warm Python without a device is started anew where it has ended") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto parent_of = [](int pid) {
    const auto text = base::read_file(fmt::format("/proc/{}/stat", pid)).value();
    return std::stoi(text.substr(text.rfind(')') + 4));
  };
  auto first = with->recorder->fork({});
  REQUIRE(first);
  const int warm = parent_of(first->pid());
  REQUIRE(::kill(warm, SIGKILL) == 0);
  auto second = with->recorder->fork({});
  CAPTURE(second ? "" : second.error().message);
  REQUIRE(second);
  CHECK(parent_of(second->pid()) != warm);
}

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

TEST_CASE("a module that reads where its first input lay is wrong, however long its calls are") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto module_of = [](const std::string& name, const std::string& of) {
    return "import time\nimport torch\n\nclass " + name +
           "(torch.nn.Module):\n    def forward(self, x):\n        self.first = getattr(self, "
           "'first', x)\n"
           "        time.sleep(0.005)\n        return torch.relu(" +
           of +
           ") * 2\n\n"
           "def get_inputs():\n    return [torch.rand(64, 64) - 0.5]\n";
  };
  const auto of = task_of(module_of("Model", "x"));
  const auto task = with->manager->get(of);
  REQUIRE(task);
  CHECK((*task)->slots == 2);  // a window of one call would last long enough
  CHECK(name_of(judged_by_fake(module_of("ModelNew", "self.first"), true, of).kind) ==
        "wrong_value");
  const verdict right = judged_by_fake(module_of("ModelNew", "x"), true, of);
  CHECK((right.kind == verdict_kind::ok || right.kind == verdict_kind::noisy));
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

TEST_CASE("inputs cannot be written, and words beside a result are seen") {
  if (device_that_is_none() == nullptr) return;
  const std::string computes = "        y = " + std::string(honest) + "\n";
  const verdict writes = judged_by_fake(candidate("y", "", computes + "        x.zero_()\n"));
  CAPTURE(writes.detail);
  CHECK(name_of(writes.kind) == "runtime_error");
  const std::string over = candidate(
      "y", "import ctypes\n",
      computes +
          "        import gc, module_child\n"
          "        child = next(o for o in gc.get_objects() if isinstance(o, module_child.Child))\n"
          "        ctypes.memset(child.call_views(0)[1][0].data_ptr() - 4, 1, 4)\n");
  const verdict beside = judged_by_fake(over);
  CAPTURE(beside.detail);
  CHECK(name_of(beside.kind) == "hack");
  CHECK(beside.reason == "overrun");
  // The control.
  turn(check_layer::guards, false);
  const verdict through = judged_by_fake(over);
  turn(check_layer::guards, true);
  CHECK(name_of(through.kind) == "ok");
}

TEST_CASE("a candidate cannot see inputs before it is asked for their call") {
  if (device_that_is_none() == nullptr) return;
  // It remembers the inputs that lie there while it is woken, and is wrong where they are those of
  // the call that comes next.
  const std::string looks = candidate(
      "y", "import module_device\n",
      "        y = " + std::string(honest) +
          "\n        import gc, module_child\n"
          "        child = next(o for o in gc.get_objects() if isinstance(o, module_child.Child))\n"
          "        memory = child.memory\n"
          "        if not hasattr(memory, 'seen'):\n"
          "            memory.seen = None\n"
          "            def wake():\n"
          "                memory.seen = x.clone()\n"
          "            memory.wake = wake\n"
          "        elif memory.seen is not None and bool((memory.seen == x).all()):\n"
          "            y = y * 2\n");
  const verdict v = judged_by_fake(looks, true);
  CAPTURE(v.detail);
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
  // The control: where content is not fresh, what lies there is what comes.
  turn(check_layer::content, false);
  const verdict stale = judged_by_fake(looks, true);
  turn(check_layer::content, true);
  CAPTURE(stale.detail);
  CHECK(name_of(stale.kind) == "wrong_value");
}

namespace {

constexpr suite_policy goes_by_evidence{.by_evidence = true};
constexpr suite_policy libraries_allowed{.library_calls = true, .by_evidence = true};

/// Computes the whole result by an operator of its own.
const std::string by_own_kernel = candidate(
    "torch.ops.mine.finish(x, self.linear.weight, self.linear.bias, self.scale, self.shift, "
    "float(factor))",
    R"(
@torch.library.custom_op("mine::finish", mutates_args=())
def finish(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.from_numpy((x.numpy() @ w.numpy().T + b.numpy()).clip(min=0) * scale.numpy() * factor + shift.numpy())
)");

}  // namespace

TEST_CASE("a verdict has evidence of how its result was computed, where it is asked for") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  CHECK_FALSE(judged_by_fake(candidate(honest)).evidence);  // the share is 0
  with->options.evidence_share = 1;
  const verdict plain = judged_by_fake(candidate(honest));
  const verdict own = judged_by_fake(by_own_kernel);
  const verdict kept = judged_by_fake(
      candidate("self.out", "",
                "        y = " + std::string(honest) +
                    "\n        if not hasattr(self, 'out'): self.out = torch.empty_like(y)\n"
                    "        self.out.copy_(y)\n"));
  const verdict wrong = judged_by_fake(candidate("x * 2"));
  with->options.evidence_share = 0;
  CAPTURE(plain.detail);
  REQUIRE(name_of(plain.kind) == "ok");
  REQUIRE(plain.evidence);
  CAPTURE(plain.evidence->unknown);
  CHECK(plain.evidence->unknown.empty());
  CHECK(plain.evidence->device_ns > 0);
  CHECK(plain.evidence->ns_by_kind.contains("cublas"));
  CHECK(plain.evidence->ns_by_kind.contains("torch"));
  CHECK(share_of(*plain.evidence, own_kernels) == 0.0);
  REQUIRE(!plain.evidence->kernels.empty());
  CHECK(plain.evidence->graphs == false);
  CHECK(plain.evidence->aliases_output == false);
  CHECK(plain.evidence->late_builds == 0);
  CAPTURE(own.detail);
  REQUIRE(name_of(own.kind) == "ok");
  REQUIRE(own.evidence);
  CAPTURE(own.evidence->unknown);
  CHECK(share_of(*own.evidence, own_kernels).value_or(0) > 0.9);
  REQUIRE(name_of(kept.kind) == "ok");
  CHECK(kept.evidence.value().aliases_output == true);
  CHECK_FALSE(wrong.evidence);  // it is not asked of what is not right
}

TEST_CASE("a suite that goes by evidence refuses what it forbids, and names it") {
  if (device_that_is_none() == nullptr) return;
  const auto kind_under = [](const std::string& source, const suite_policy& policy) {
    const verdict v = judged_by_fake(source, false, task_of(layered), {}, policy);
    CAPTURE(v.detail);
    CHECK(v.evidence.has_value());
    return std::string(name_of(v.kind)) + (v.reason.empty() ? "" : "(" + v.reason + ")");
  };
  CHECK(kind_under(candidate(honest), goes_by_evidence) == "rejected_static(library_calls)");
  CHECK(kind_under(by_own_kernel, goes_by_evidence) == "ok");
  CHECK(kind_under(candidate(honest), libraries_allowed) == "ok");
  // A policy that does not go by evidence forbids a module nothing.
  CHECK(name_of(
            judged_by_fake(candidate(honest), false, task_of(layered), {}, suite_policy{}).kind) ==
        "ok");
}

TEST_CASE("evidence that cannot be had, or that a process forges, changes no other verdict") {
  if (device_that_is_none() == nullptr) return;
  const std::vector<std::pair<std::string, std::string>> rows{
      {"torch.autograd.profiler.profile.__exit__ = lambda *unused: None\n",
       "the profile cannot be read"},
      {"import module_evidence\nmodule_evidence.evidence = lambda child: {}\n", "aliases_output"},
      {"import module_evidence, os\nmodule_evidence.evidence = lambda child: os._exit(3)\n",
       "a profiled call"},
      {"import module_evidence\nmodule_evidence.evidence = lambda child: {'aliases_output': True, "
       "'late_builds': 0, 'graphs': False, 'kernels': [['x', 1, -5]]}\n",
       "no call has"}};
  for (const auto& [forges, why] : rows) {
    CAPTURE(forges);
    const verdict v = judged_by_fake(candidate(honest, forges), false, task_of(layered), {},
                                     suite_policy(goes_by_evidence));
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "ok");
    REQUIRE(v.evidence);
    CHECK(contains(v.evidence->unknown, why));
  }
  CHECK(name_of(judged_by_fake(candidate(honest)).kind) == "ok");
}

TEST_CASE("a line of torch.compile that is not called makes no module unsupported") {
  if (device_that_is_none() == nullptr) return;
  const std::string unused =
      "fast = torch.compile(lambda x: x)\n"
      "@torch.compile(mode='max-autotune')\ndef faster(x): return x\n";
  const std::string computes = "        y = " + std::string(honest) + "\n";
  const std::string wrong = "torch.relu(self.linear(x))";
  const std::vector<std::pair<std::string, std::string>> rows{
      {candidate(honest, unused), "ok"},
      {candidate(wrong, unused), "wrong_value"},
      {candidate(honest, "import torch._dynamo\n"), "ok"},
      {candidate("y", unused,
                 "        try: y = fast(x)\n        except RuntimeError:\n    " + computes),
       "ok"},
      {candidate("y", unused, computes + "        torch.nn.ReLU().compile()\n"), "ok"},
      {candidate("faster(x)", unused), "unsupported"},
      {candidate("y", unused, computes + "        self.linear.compile()\n        self.linear(x)\n"),
       "unsupported"},
      {candidate("y", unused, computes + "        raise ValueError('its own')\n"), "runtime_error"},
      // It hides the word: then it is what it does.
      {candidate("getattr(torch, 'comp' + 'ile')(self.linear)(x)"), "runtime_error"},
      {candidate(honest, "try:\n    import tilelang\nexcept ImportError: pass\n"), "ok"}};
  for (const auto& [source, kind] : rows) {
    const verdict v = judged_by_fake(source);
    CAPTURE(source);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == kind);
  }
}

TEST_CASE("a module that takes more of the device's memory than it may is told the limit") {
  if (device_that_is_none() == nullptr) return;
  ::setenv("QUERN_TEST_DEVICE_MEMORY", "1", 1);
  // Of a task that nobody has judged, whose limits are not known.
  const auto of = task_of(
      "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
      "        return x * 2\n\ndef get_inputs():\n    return [torch.rand(64, 71)]\n");
  const auto taking_in = [](int call, int mib) {
    return fmt::format(
        "import mmap\nimport torch\n\nclass ModelNew(torch.nn.Module):\n"
        "    def forward(self, x):\n        self.calls = getattr(self, 'calls', 0) + 1\n"
        "        if self.calls == {}:\n            self.kept = mmap.mmap(-1, {} << 20)\n"
        "            self.kept.write(bytes({} << 20))\n        return x + x\n",
        call, mib, mib);
  };
  // The first call of the checks is looked at by itself: later ones are allowed what references
  // move.
  const verdict greedy = judged_by_fake(taking_in(1, 384), false, of);
  CAPTURE(greedy.detail);
  CHECK(name_of(greedy.kind) == "oom");
  CHECK(contains(greedy.detail, "the limit is 512 MiB"));
  CHECK(name_of(judged_by_fake(taking_in(4, 1024), false, of).kind) == "oom");
  CHECK(name_of(judged_by_fake(taking_in(0, 1024), false, of).kind) == "ok");
  // The control.
  turn(check_layer::memory, false);
  const verdict through = judged_by_fake(taking_in(1, 384), false, of);
  turn(check_layer::memory, true);
  ::unsetenv("QUERN_TEST_DEVICE_MEMORY");
  CAPTURE(through.detail);
  CHECK(name_of(through.kind) == "ok");
}

TEST_CASE("how the device was while a module was timed stands in its verdict") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  void* handle = ::dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  using get = fake_nvml_state* (*)();
  fake_nvml_state& state = *reinterpret_cast<get>(::dlsym(handle, "quern_fake_nvml"))();
  state = {};
  state.reasons = 0x4;
  state.process_count = 2;
  state.processes[0] = {static_cast<std::uint32_t>(::getpid()), 1ULL << 30};
  state.processes[1] = {1, 1ULL << 30};
  device_watch kept = std::exchange(with->care->watch(), device_watch("0000:0F:00.0", FAKE_NVML));
  REQUIRE(with->care->watch().problem().empty());
  const verdict v = judged_by_fake(candidate(honest), true);
  const verdict untimed = judged_by_fake(candidate(honest));
  with->care->watch() = std::move(kept);
  CAPTURE(v.detail);
  REQUIRE(v.device);
  CHECK(v.device->throttled);
  CHECK(v.device->shared == true);
  REQUIRE(v.device->looks.size() >= 2);
  CHECK(v.device->looks.back().after);
  CHECK(v.device->candidate_sm_mhz == 1120);
  CHECK(v.device->baseline_sm_mhz == 1120);
  if (v.kind == verdict_kind::noisy) CHECK(contains(v.detail, "throttled (sw_power_cap)"));
  CHECK_FALSE(untimed.device);
  // Without NVML nothing is known.
  CHECK_FALSE(judged_by_fake(candidate(honest), true).device);
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

TEST_CASE("a warm Python or a reference that is lost is made anew, and no verdict on a candidate") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  evaluation_request request;
  request.subject = task_of(layered);
  request.source = candidate(honest);
  request.verify_only = true;
  const measure_name how;
  for (const bool warm_python : {true, false}) {
    CAPTURE(warm_python);
    REQUIRE(name_of(judged_by_fake(request.source).kind) == "ok");
    const auto task = with->manager->get(request.subject);
    REQUIRE(task);
    const int victim = warm_python ? with->manager->zygote().value()->pid()
                                   : (*task)->processes.reference->child().pid();
    REQUIRE(::kill(victim, SIGKILL) == 0);
    verdict v;
    pytorch_device_evaluation one(*with, request, how, v);
    one.run();
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "infra_error");
    CHECK(one.interrupted() == interruption::reference_lost);
    // The control: a soak takes away what mends this.
    with->options.restart_reference = false;
    CHECK(one.interrupted() == interruption::none);
    with->options.restart_reference = true;
    with->manager->renew();
  }
  CHECK(name_of(judged_by_fake(request.source).kind) == "ok");
}

TEST_CASE("a context knows that somebody ended its context, and does not use it any more") {
  const fs::path library = program_dir() / "libquern_fake_device.so";
  auto first = device_context::open(3, library), second = device_context::open(3, library);
  auto elsewhere = device_context::open(4, library);
  REQUIRE(first);
  REQUIRE(second);
  REQUIRE(elsewhere);
  CHECK_FALSE((*second)->lost_cuda_context());
  first->reset();
  REQUIRE(device_context::end_cuda_context(3, library));
  CHECK((*second)->lost_cuda_context());
  CHECK_FALSE((*elsewhere)->lost_cuda_context());
  auto third = device_context::open(3, library);
  REQUIRE(third);
  CHECK_FALSE((*third)->lost_cuda_context());
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

TEST_CASE("honest modules in many styles are ok on a device that is none") {
  if (device_that_is_none() == nullptr) return;
  const auto all = tools::read_honest_modules(source_dir());
  REQUIRE(all);
  int tried = 0;
  for (const tools::honest_module& one : *all) {
    // It compares no types of 16 bits.
    const bool is_wide = pytorch_of(*one.subject).precision == torch_precision::fp32;
    if (!one.on_cores || !is_wide) continue;
    const verdict v = judged_by_fake(one.source, false, one.subject);
    CAPTURE(one.name);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "ok");
    ++tried;
  }
  CHECK(tried >= 40);
}

TEST_CASE("hostile modules are caught on a device that is none, or gain nothing") {
  if (device_that_is_none() == nullptr) return;
  const auto all = tools::read_hostile_modules(source_dir(), {"/tmp", 1});
  REQUIRE(all);
  int tried = 0;
  for (const tools::hostile_module& one : *all) {
    // What is of one kind of device alone has no other right verdict; the sandbox is the real one
    // elsewhere.
    if (!one.on_cores || !one.on_gpus || one.only_timed || one.kind != "hostile") continue;
    const verdict v = judged_by_fake(one.source);
    CAPTURE(one.name);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.detail);
    const bool may_be_ok = std::ranges::find(one.caught, verdict_kind::ok) != one.caught.end();
    CHECK((tools::is_own_fault(v.kind) || (may_be_ok && v.kind == verdict_kind::ok)));
    ++tried;
  }
  CHECK(tried >= 40);
}
