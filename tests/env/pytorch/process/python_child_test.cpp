// The Python processes of lane `pytorch`: a warm parent, sandboxed children, modules in them.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "env/lanes/pytorch/candidate_builds.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/runner/arena.hpp"
#include "env/runner/standing_process.hpp"
#include "support/process_called.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
namespace fs = std::filesystem;

namespace {

constexpr question_limits patient{60, 120};

/// A module as KernelBench has them: a layer with weights, two inputs, one of them a number.
const char* const scaled_linear = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.linear = nn.Linear(features, 3)
        self.scale = scale
        self.shift = torch.rand(3)

    def forward(self, x, factor):
        return self.linear(x) * self.scale * factor + self.shift

def get_inputs():
    return [torch.rand(4, 5), 0.5]

def get_init_inputs():
    return [5, (2.0, 3)[0]]
)";

const char* const same_in_other_words = R"(
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.linear = nn.Linear(features, 3)
        self.scale = scale
        self.shift = torch.zeros(3)

    def forward(self, x, factor):
        return torch.addmm(self.linear.bias, x, self.linear.weight.t()) * (self.scale * factor) + self.shift
)";

/// One warm parent for all cases; null: this machine has no Python with torch, and the case is
/// skipped.
python_zygote* zygote() {
  static std::optional<python_zygote> started;
  if (!started) {
    const auto python = find_module_python();
    if (!python) {
      test::skip(python.error().message);
      return nullptr;
    }
    auto made = python_zygote::start(sandbox_mode::best_effort);
    CAPTURE(made ? "" : made.error().message);
    REQUIRE(made);
    started.emplace(std::move(*made));
  }
  return &*started;
}

struct modules_fixture {
  base::temp_folder folder = base::temp_folder::make("modules").value();

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = folder.path() / name;
    REQUIRE(base::write_file_atomic(path, text));
    // The child is another user.
    fs::permissions(folder.path(), fs::perms::all);
    fs::permissions(path, fs::perms::all);
    return path.string();
  }
  python_child start(const std::string& path, std::vector<std::string> classes = {"Model"}) const {
    python_start how;
    how.classes = std::move(classes);
    how.memory_bytes = std::int64_t{2} << 30;
    how.read_only = {path};
    auto child = zygote()->fork(how);
    CAPTURE(child ? "" : child.error().message);
    REQUIRE(child);
    return std::move(*child);
  }
  /// What a module answers to `load`, or to `describe` behind it: the text of a failure; empty: it
  /// went well.
  std::string complaint(const std::string& name, const std::string& text) const {
    const std::string path = write(name, text);
    python_child child = start(path);
    const auto loaded = child.load(path, patient);
    if (!loaded) return loaded.error().text;
    const auto sheet = child.describe({"fp32", 7}, patient);
    return sheet ? std::string() : sheet.error().text;
  }
};

std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// How often the first thread of a process went to sleep.
std::int64_t sleeps_of(int process) {
  const auto status = base::read_file(fmt::format("/proc/{}/status", process), 1 << 16);
  REQUIRE(status);
  constexpr std::string_view key = "\nvoluntary_ctxt_switches:";
  const auto at = status->find(key);
  REQUIRE(at != std::string::npos);
  return std::stoll(status->substr(at + key.size()));
}

/// The same, once nothing wakes it any more; below 0: something always does.
std::int64_t sleeps_at_rest(int process) {
  auto before = sleeps_of(process);
  for (int calm = 0, tried = 0; tried < 1000; ++tried) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto now = sleeps_of(process);
    calm = now == before ? calm + 1 : 0;
    before = now;
    if (calm == 20) return now;
  }
  return -1;
}

}  // namespace

TEST_CASE_FIXTURE(modules_fixture,
                  "the end of a child wakes the parent, that it stands or goes on does not") {
  if (zygote() == nullptr) return;
  const std::string path = write("waits.py", scaled_linear);
  const int parent = zygote()->pid();
  std::optional<python_child> child(start(path));
  const int process = child->pid();
  const auto before = sleeps_at_rest(parent);
  REQUIRE(before >= 0);
  for (int i = 0; i < 8; ++i) {
    standing_process stands;
    REQUIRE(stands.stop(process, 60));
    CHECK(is_standing(process));
  }
  CHECK(sleeps_at_rest(parent) == before);
  REQUIRE(::kill(process, SIGKILL) == 0);
  CHECK(sleeps_at_rest(parent) > before);
}

TEST_CASE_FIXTURE(modules_fixture,
                  "content of a row differs from call to call, whatever draws it") {
  if (zygote() == nullptr) return;
  struct way {
    std::string inputs;
    std::size_t drawn = 0;  // of the tensors, from here on
    bool together = false;  // vmap can run it, and nobody draws but torch
  };
  const std::vector<way> ways{
      {"[torch.rand(4, 5), torch.randint(0, 9, (7,)), torch.rand(9, 9).triu() > 0.2]", 0, true},
      {"[torch.ones(4), 3, torch.randn(2, 8).half()]", 1, true},
      {"[torch.tensor([random.random() for _ in range(6)])]", 0, false},
      {"[torch.rand(6) * random.random()]", 0, false},
      {"[torch.empty(6).uniform_()]", 0, false}};
  for (const way& one : ways) {
    CAPTURE(one.inputs);
    const std::string path =
        write(fmt::format("draws{}.py", &one - ways.data()),
              "import random\nimport torch\n\nclass Model(torch.nn.Module):\n"
              "    def forward(self, *inputs):\n        return inputs[0] * 2\n\n"
              "def get_inputs():\n    return " +
                  one.inputs + "\n");
    python_child reference = start(path);
    REQUIRE(reference.load(path, patient));
    const auto text = reference.describe({"fp32", 7}, patient);
    CAPTURE(text ? "" : text.error().text);
    REQUIRE(text);
    const auto at = instance_of(parse_module_sheet(*text).value()).value();
    constexpr std::int64_t calls = 3;
    const auto written = tensor_arena::create(memory_use::outputs, at.inputs, 1 + calls).value();
    const auto outputs = tensor_arena::create(memory_use::outputs, at.outputs, 1 + calls).value();
    REQUIRE(reference.link().map(written.request(0), written.fd(), patient));
    REQUIRE(reference.link().map(outputs.request(1), outputs.fd(), patient));
    REQUIRE(reference.link().plan(make_plan(at, written, outputs).value(), patient));
    using tensors = std::vector<std::vector<std::byte>>;
    const auto drawn = [&](std::uint64_t seed, bool row) {
      std::vector<tensors> all(calls);
      const std::vector<std::uint64_t> seeds{seed, seed + 100, seed + 200};
      const auto made = reference.content(1, seeds, "nominal", patient, row);
      CAPTURE(made ? "" : made.error().text);
      REQUIRE(made);
      for (std::int64_t call = 0; call < calls; ++call)
        for (std::size_t i = 0; i < at.inputs.size(); ++i) {
          const auto bytes = written.at(i, 1 + call);
          all[static_cast<std::size_t>(call)].emplace_back(bytes.begin(), bytes.end());
        }
      return all;
    };
    const auto row = drawn(11, true), again = drawn(11, true), other = drawn(12, true);
    CHECK((row == again));
    for (std::size_t i = 0; i < at.inputs.size(); ++i) {
      CAPTURE(i);
      const bool differ = i >= one.drawn;
      CHECK((row[0][i] != row[1][i]) == differ);
      CHECK((row[1][i] != row[2][i]) == differ);
      CHECK((row[0][i] != other[0][i]) == differ);
    }
    // Together, the second call has no seed of its own.
    CHECK((row != drawn(11, false)) == one.together);
  }
}

TEST_CASE_FIXTURE(
    modules_fixture,
    "a reference describes itself, and a candidate with its weights gives its results") {
  if (zygote() == nullptr) return;
  const std::string path = write("reference.py", scaled_linear);
  python_child reference = start(path);
  const auto loaded = reference.load(path, patient);
  CAPTURE(loaded ? "" : loaded.error().text);
  REQUIRE(loaded);
  const module_making how{"fp32", 7};
  const auto text = reference.describe(how, patient);
  CAPTURE(text ? *text : text.error().text);
  REQUIRE(text);
  const auto sheet = parse_module_sheet(*text);
  CAPTURE(sheet ? "" : sheet.error().message);
  REQUIRE(sheet);
  CHECK(reference.layers().has(layer::seccomp));
  CHECK(sheet->init == "[5, 2.0]");
  REQUIRE(sheet->arguments.size() == 2);
  CHECK(sheet->arguments[0].tensor.shape == std::vector<std::int64_t>{4, 5});
  CHECK(sheet->arguments[1].value == "0.5");
  REQUIRE(sheet->weights.size() == 3);
  CHECK(sheet->weights[2].kind == "attribute");
  CHECK(sheet->weights[2].name == "shift");
  CHECK_FALSE(sheet->returns_tuple);
  CHECK_FALSE(sheet->keeps_state);
  CHECK_FALSE(sheet->draws);

  const auto at = instance_of(*sheet).value();
  const auto inputs = make_input_arena(at, 2).value();
  const auto written = tensor_arena::create(memory_use::outputs, at.inputs, 2).value();
  const auto outputs = tensor_arena::create(memory_use::outputs, at.outputs, 2).value();
  // The reference writes the content of its own inputs.
  REQUIRE(reference.link().map(written.request(0), written.fd(), patient));
  REQUIRE(reference.link().map(outputs.request(1), outputs.fd(), patient));
  REQUIRE(reference.link().plan(make_plan(at, written, outputs).value(), patient));
  const std::vector<std::uint64_t> seeds{11, 12};
  const auto content = reference.content(0, seeds, "nominal", patient);
  CAPTURE(content ? "" : content.error().text);
  REQUIRE(content);
  const auto first = floats_of(written.at(0, 0)), second = floats_of(written.at(0, 1));
  CHECK(first != second);
  CHECK(std::all_of(first.begin(), first.end(), [](float x) { return x >= 0 && x < 1; }));
  REQUIRE(reference.link().run(0, 2, patient));
  const auto want = floats_of(outputs.at(0, 1));

  const auto weights = make_weights(*sheet, memory_use::outputs).value();
  REQUIRE(reference.write_weights(weights, patient));

  const std::string other = write("candidate.py", same_in_other_words);
  python_child candidate = start(other, {"ModelNew", "Model"});
  REQUIRE(candidate.load(other, patient));
  const auto made = candidate.construct(how, *sheet, weights, patient);
  CAPTURE(made ? "" : made.error().text);
  REQUIRE(made);
  CHECK(made->weights_taken == 3);
  CHECK_FALSE(made->drawn_elsewhere);
  const auto results = tensor_arena::create(memory_use::outputs, at.outputs, 2).value();
  for (const std::int64_t slot : {0, 1})
    std::copy(written.at(0, slot).begin(), written.at(0, slot).end(), inputs.at(0, slot).begin());
  REQUIRE(candidate.link().map(inputs.request(0), inputs.fd(), patient));
  REQUIRE(candidate.link().map(results.request(1), results.fd(), patient));
  REQUIRE(candidate.link().plan(make_plan(at, inputs, results).value(), patient));
  const auto ran = candidate.link().run(0, 2, patient);
  CAPTURE(ran ? "" : ran.error().text);
  REQUIRE(ran);
  const auto got = floats_of(results.at(0, 1));
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-5));
  CHECK(std::any_of(want.begin(), want.end(), [](float x) { return std::abs(x) > 1e-3F; }));
}

TEST_CASE_FIXTURE(modules_fixture, "a module that cannot be taken says why") {
  if (zygote() == nullptr) return;
  CHECK(test::contains(complaint("a.py", "import torch\nclass Model:\n  pass\n"), "no get_inputs"));
  CHECK(test::contains(complaint("b.py", "def f(:\n"), "SyntaxError"));
  CHECK(test::contains(complaint("c.py", "raise ValueError('no ' + 'luck')\n"),
                       "ValueError: no luck"));
  CHECK(test::contains(complaint("d.py", "import sys\nsys.exit(0)\n"), "SystemExit"));
  std::string text = scaled_linear;
  text.replace(text.find("[torch.rand(4, 5), 0.5]"), 23, "[torch.rand(4, 5), object()]");
  CHECK(test::contains(complaint("e.py", text), "only numbers"));
}

TEST_CASE_FIXTURE(modules_fixture, "state between calls and random numbers in forward are seen") {
  if (zygote() == nullptr) return;
  const auto sheet_of = [&](const std::string& name, const std::string& forward) {
    const std::string path = write(name, R"(
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
    def forward(self, x):
        )" + forward + R"(
def get_inputs():
    return [torch.rand(16)]
)");
    python_child child = start(path);
    REQUIRE(child.load(path, patient));
    const auto text = child.describe({"fp32", 7}, patient);
    CAPTURE(text ? "" : text.error().text);
    REQUIRE(text);
    return parse_module_sheet(*text).value();
  };
  const auto counting = sheet_of("state.py", "self.calls += 1\n        return x + self.calls");
  CHECK(counting.keeps_state);
  CHECK(counting.repeats);
  // Where nothing puts it back.
  CHECK_FALSE(
      sheet_of("elsewhere.py", "globals().setdefault('n', []).append(1)\n        return x + len(n)")
          .repeats);
  const auto drawing = sheet_of("draws.py", "return x + torch.rand(16)");
  CHECK(drawing.draws);
  CHECK_FALSE(drawing.keeps_state);
  CHECK(sheet_of("constant.py", "return x * 0").is_constant);
  CHECK(sheet_of("no_scalar.py", "return (x * 0).sum()").is_constant);
  CHECK_FALSE(sheet_of("scalar.py", "return x.mean()").is_constant);
  // A copy of this one is contiguous.
  CHECK_FALSE(sheet_of("slice.py", "return x.reshape(4, 4)[:, 1]").outputs.front().contiguous);
  const auto plain = sheet_of("plain.py", "return x + 1, x > 0.5");
  CHECK(plain.returns_tuple);
  REQUIRE(plain.outputs.size() == 2);
  CHECK(plain.outputs[1].tensor.is_bool);
  CHECK_FALSE((plain.draws || plain.keeps_state || plain.is_constant));
}

TEST_CASE_FIXTURE(modules_fixture, "a module that fits into no memory is described all the same") {
  if (zygote() == nullptr) return;
  // 1 TiB of input, 4 TiB of weights.
  const std::string path = write("huge.py", R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.start = torch.zeros(features)

    def forward(self, x, classes, factor):
        y = (self.linear(x) + self.start) * factor
        return y.t(), classes > 2, x.argmax(dim=1)

def get_inputs():
    return [torch.rand(1 << 18, 1 << 20), torch.randint(0, 9, (5,)), 1.5]

def get_init_inputs():
    return [1 << 20]
)");
  python_child child = start(path);
  REQUIRE(child.load(path, patient));
  const auto text = child.describe_without_values({"fp32", 7}, patient);
  CAPTURE(text ? *text : text.error().text);
  REQUIRE(text);
  const auto sheet = parse_module_sheet(*text);
  CAPTURE(sheet ? "" : sheet.error().message);
  REQUIRE(sheet);
  using shape = std::vector<std::int64_t>;
  CHECK(sheet->init == "[1048576]");
  REQUIRE(sheet->arguments.size() == 3);
  CHECK(sheet->arguments[0].tensor.shape == shape{1 << 18, 1 << 20});
  CHECK(sheet->arguments[1].tensor.type == dtype::i64);
  CHECK(sheet->arguments[2].value == "1.5");
  REQUIRE(sheet->weights.size() == 3);
  CHECK(sheet->weights[2].kind == "attribute");
  CHECK(sheet->returns_tuple);
  REQUIRE(sheet->outputs.size() == 3);
  CHECK(sheet->outputs[0].tensor.shape == shape{1 << 20, 1 << 18});
  CHECK_FALSE(sheet->outputs[0].contiguous);
  CHECK(sheet->outputs[1].tensor.is_bool);
  CHECK(sheet->outputs[2].tensor.type == dtype::i64);
  // The same module with values: there is no room for them, which is its own failure.
  python_child other = start(path);
  REQUIRE(other.load(path, patient));
  CHECK_FALSE(other.describe({"fp32", 7}, patient));
}

TEST_CASE_FIXTURE(modules_fixture, "a module reaches nothing of the host") {
  if (zygote() == nullptr) return;
  const std::string secret = write("secret.txt", "a word");
  const auto ends_with = [&](const std::string& name, const std::string& body) {
    return complaint(name, "import os, socket, subprocess, threading\n" + body);
  };
  CHECK(test::contains(ends_with("read.py", "open('" + secret + "').read()\n"), "Error"));
  CHECK(test::contains(ends_with("etc.py", "open('/etc/passwd').read()\n"), "Error"));
  CHECK(test::contains(ends_with("run.py", "subprocess.run(['/bin/true'])\n"), "Error"));
  CHECK(test::contains(ends_with("fork.py", "os.fork()\n"), "Error"));
  CHECK(test::contains(ends_with("net.py", "socket.socket()\n"), "Error"));
  CHECK(test::contains(ends_with("kill.py", "os.kill(os.getppid(), 9)\n"), "Error"));
  CHECK(
      test::contains(ends_with("thread.py", "threading.Thread(target=print).start()\n"), "Error"));
  // The control: what a module may do does not fail.
  CHECK(complaint("dynamo.py", std::string(scaled_linear) + "import torch._dynamo\n") == "");
  CHECK(complaint("fine.py", std::string(scaled_linear) + "open('own.txt', 'w').write('x')\n")
            .empty());
}

TEST_CASE_FIXTURE(modules_fixture, "a fault is told with its signal, and the next child is whole") {
  if (zygote() == nullptr) return;
  const std::string path = write("fault.py", "import ctypes\nctypes.string_at(8)\n");
  python_child child = start(path);
  const auto loaded = child.load(path, patient);
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().failure_kind == runner_failure::kind::fault);
  CHECK(loaded.error().last.signal == 11);
  CHECK(complaint("again.py", scaled_linear).empty());
}

TEST_CASE_FIXTURE(modules_fixture,
                  "extensions are learnt once more where somebody killed who did") {
  if (zygote() == nullptr) return;
  const std::string path = write("asks.py",
                                 "import time\nfrom torch.utils.cpp_extension import load_inline\n"
                                 "import ctypes\n"
                                 "ctypes.CDLL(None).prctl(15, b'a_recording', 0, 0, 0)\n"
                                 "time.sleep(2)\n"
                                 "e = load_inline(name='e', cpp_sources='int one() { return 1; }', "
                                 "functions=['one'])\n");
  // How many requests are found where so many of the processes are killed.
  const auto found = [&](int kills) {
    // One that was used before is ended behind its evaluation.
    while (test::process_called("a_recording") > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::jthread killer([=](const std::stop_token& stop) {
      int killed = 0, last = 0;
      while (!stop.stop_requested() && killed < kills) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const int child = test::process_called("a_recording");
        if (child <= 0 || child == last) continue;
        ::kill(child, SIGKILL);
        last = child;
        ++killed;
      }
    });
    const auto requests = recorded_extensions(*zygote(), path, nullptr, {patient, patient});
    CAPTURE(requests ? "" : requests.error().message);
    REQUIRE(requests);
    return requests->size();
  };
  CHECK(found(0) == 1);
  CHECK(found(1) == 1);
  CHECK(found(2) == 0);
}

TEST_CASE("a sheet that breaks a bound is refused") {
  const std::string good =
      R"({"init":"[]","inputs":[{"type":"f32","bool":false,"shape":[2]}],"weights":[],"outputs":[{"type":"f32","bool":false,"shape":[2],"contiguous":true}],"tuple":false,"keeps_state":false,"draws":false,"repeats":true,"constant":false,"drawn_on_core":false})";
  REQUIRE(parse_module_sheet(good));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return parse_module_sheet(text);
  };
  CHECK_FALSE(with("[2]", "[-1]"));
  CHECK_FALSE(with("[2]", "[1,1,1,1,1,1,1,1,1]"));
  CHECK_FALSE(with("\"f32\"", "\"f31\""));
  CHECK_FALSE(with("\"init\":\"[]\"", "\"init\":1"));
  CHECK_FALSE(with("\"weights\":[]", "\"weights\":{}"));
  CHECK_FALSE(with("\"bool\":false", "\"bool\":true"));
  const auto huge = with("[2]", "[4294967296,4294967296]");
  REQUIRE(huge);
  CHECK_FALSE(instance_of(*huge));
}
