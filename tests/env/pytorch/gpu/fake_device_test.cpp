// An evaluation of a module on a GPU from task to verdict, on a device that is none: what the
// evaluator lends, asks, compares and charges. Its processes, their sandbox and Python are real.
#include <csignal>

#include "tests/env/gpu/layer_switches.hpp"
#include "tests/env/pytorch/gpu/fake_fixture.hpp"
#include "tools/bench_pytorch/module_files.hpp"

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
    auto task = with->stand->get(task_of(layered));
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

TEST_CASE("what a task is called with is known without a device, as its evaluation knows it") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  const auto subject = task_of(layered);
  const auto ahead = with->sheets->of(*subject);
  CAPTURE(ahead ? "" : ahead.error().message);
  REQUIRE(ahead);
  auto task = with->stand->get(subject);
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
    const auto task = with->stand->get(request.subject);
    REQUIRE(task);
    const int victim = warm_python ? with->stand->zygote().value()->pid()
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
    with->stand->renew();
  }
  CHECK(name_of(judged_by_fake(request.source).kind) == "ok");
}

TEST_CASE("a desk knows that somebody ended its context, and does not use it any more") {
  const fs::path library = program_dir() / "libquern_fake_device.so";
  auto first = device_desk::open(3, library), second = device_desk::open(3, library);
  auto elsewhere = device_desk::open(4, library);
  REQUIRE(first);
  REQUIRE(second);
  REQUIRE(elsewhere);
  CHECK_FALSE((*second)->lost_context());
  first->reset();
  REQUIRE(device_desk::end_context(3, library));
  CHECK((*second)->lost_context());
  CHECK_FALSE((*elsewhere)->lost_context());
  auto third = device_desk::open(3, library);
  REQUIRE(third);
  CHECK_FALSE((*third)->lost_context());
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
