// An evaluation of a module on a GPU from task to verdict, on a device that is none: what the
// evaluator lends, asks, compares and charges. Its processes, their sandbox and Python are real.
#include <csignal>

#include <dlfcn.h>
#include <unistd.h>

#include "env/device/fake_nvml.hpp"
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
