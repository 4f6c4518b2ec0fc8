// Honest, wrong and malformed candidates of lane pytorch, and references that cannot be judged by.
#include <string>
#include <utility>

#include "bad_checks.hpp"
#include "env/judge/explain.hpp"
#include "env/lanes/pytorch/build/slim_sources.hpp"
#include "modules_fixture.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

struct sample_of {
  std::string name;
  std::string source;
  verdict_kind kind;
  std::string said = {};  ///< part of the detail
};

void check_all(const std::vector<sample_of>& samples) {
  for (const sample_of& one : samples) {
    const verdict v = judged(one.source);
    CAPTURE(one.name);
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == name_of(one.kind));
    CHECK(contains(v.detail, one.said));
    CHECK_FALSE(v.speedup_e2.has_value());
  }
}

/// Forward with a result in a variable `y`.
std::string with_result(const std::string& lines, const std::string& result = "y") {
  return candidate(result, "", "        y = " + std::string(honest) + "\n" + lines);
}

/// An extension of which all cases ask for the same builds.
const std::string relu_times = R"(
#include <torch/extension.h>
torch::Tensor relu_times(torch::Tensor x, double factor, float above) {
  TORCH_CHECK(factor > 0, "a factor above 0 is needed, got ", factor);
  auto y = torch::empty_like(x);
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] > above ? from[i] * float(factor) : 0;
  return y;
}
)";

/// Not optimised: torch's headers take long enough to be read.
std::string load_inline_of(const std::string& text) {
  return "load_inline(name='relu_times', functions=['relu_times'], extra_cflags=['-O0'], "
         "cpp_sources='''" +
         text + "''')\n";
}

const std::string imports_load_inline = "from torch.utils.cpp_extension import load_inline\n";

}  // namespace

TEST_CASE("honest candidates in many styles are right") {
  if (judge() == nullptr) return;
  const auto ok = verdict_kind::ok;
  std::string renamed = candidate("torch.relu(self.other(x)) * self.scale * factor + self.shift");
  renamed.replace(renamed.find("self.linear = "), 14, "self.other = ");
  std::string both =
      std::string(layered) + candidate(honest).substr(std::string(layered).find("class "));
  check_all({
      {"as the reference", candidate(honest), ok},
      {"in place on its own tensors",
       candidate("self.linear(x).clamp_(min=0).mul_(self.scale).mul_(factor).add_(self.shift)"),
       ok},
      {"another order of sums",
       candidate(
           "torch.relu((x @ self.linear.weight.t()) + self.linear.bias) * (self.scale * factor) "
           "+ self.shift"),
       ok},
      {"a result that is not contiguous", with_result("", "y.t().contiguous().t()"), ok},
      {"one buffer for all results",
       candidate("self.kept.copy_(" + std::string(honest) + ")", "",
                 "        if not hasattr(self, 'kept'): self.kept = torch.empty(24, 32)\n"),
       ok},
      {"a try around an import",
       candidate(honest, "try:\n    import no_such_module\nexcept ImportError:\n    pass\n"), ok},
      {"its own file of notes", with_result("        open('notes', 'w').write('x')\n"), ok},
      {"a folder of its own",
       candidate(honest,
                 "import os, shutil, tempfile\n"
                 "with tempfile.TemporaryDirectory() as made:\n"
                 "    open(made + '/a', 'w').write('x')\n"
                 "    os.rename(made + '/a', made + '/b')\n"
                 "    shutil.copy(made + '/b', made + '/c')\n"),
       ok},
      {"threads that it asks for",
       candidate(honest,
                 "import os\ntorch.set_num_threads(4)\ntorch.set_num_interop_threads(2)\n"
                 "torch.set_num_threads(os.cpu_count() // 2)\ntorch._C.set_num_threads(4)\n",
                 "        torch.set_num_threads(4)\n        torch.ones(1 << 20).sin()\n"),
       ok},
      {"output to the terminal", with_result("        print('computing')\n"), ok},
      {"the reference's class beside it", both, ok},
      // KernelBench's rule: the constructors draw in the same order from the same seed.
      {"weights under another name", renamed, ok},
      {"class Model",
       [] {
         std::string text = candidate(honest);
         return text.replace(text.find("ModelNew"), 8, "Model");
       }(),
       ok},
  });
}

TEST_CASE("weights that a constructor changes on purpose are judged as it made them, too") {
  if (judge() == nullptr) return;
  const auto folded = [](const std::string& factor) {
    std::string text = candidate("torch.relu(self.linear(x)) * factor + self.shift");
    const std::string from = "self.shift = torch.rand(features)\n";
    text.insert(text.find(from) + from.size(),
                "        with torch.no_grad():\n"
                "            self.linear.weight.mul_(" +
                    factor +
                    "[:, None])\n"
                    "            self.linear.bias.mul_(" +
                    factor + ")\n");
    return text;
  };
  const verdict v = judged(folded("self.scale"));
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  REQUIRE_FALSE(v.checks.empty());
  CHECK(v.checks.front().detail == "as its constructor made them");
  CHECK(name_of(judged(folded("(self.scale + 0.1)")).kind) == "wrong_value");
}

TEST_CASE("wrong candidates have the verdict that is right") {
  if (judge() == nullptr) return;
  check_caught(wrong_candidates());
}

TEST_CASE("malformed candidates say what is wrong with them") {
  if (judge() == nullptr) return;
  check_caught(malformed_candidates());
}

TEST_CASE("of a long exception its type, the begin of its message and its end are told") {
  if (judge() == nullptr) return;
  const auto told = [](const std::string& raises) {
    const verdict v = judged(with_result("        " + raises + "\n"));
    CHECK(name_of(v.kind) == "runtime_error");
    CHECK(v.detail.size() < 480);
    return v.detail;
  };
  const std::string lines =
      told("raise ValueError('a shape is wrong\\n' + 'between\\n' * 200 + 'the last word')");
  CAPTURE(lines);
  CHECK(lines.starts_with("ValueError: a shape is wrong [...] "));
  CHECK(contains(lines, "between\nthe last word (line "));
  const std::string line = told("raise ValueError('begin ' + '\u00e9' * 400 + ' end')");
  CAPTURE(line);
  CHECK(line.starts_with("ValueError: begin \u00e9"));
  CHECK(contains(line, "\u00e9 end (line "));
  CHECK(contains(line, " [...] "));
  // A short one of several lines is told whole.
  CHECK(contains(told("raise ValueError('one\\ntwo')"), "ValueError: one\ntwo (line "));
}

TEST_CASE("the author of a module whose process ended is told what to do in words of the lane") {
  if (judge() == nullptr) return;
  const auto of = task_of(layered);
  const auto said = [&](const std::string& line, std::string_view reason) {
    const verdict v = judged(with_result("        import ctypes, os\n        " + line + "\n"), of);
    CHECK(name_of(v.kind) == "runtime_error");
    CHECK(v.reason == reason);
    const std::string text = describe_verdict(v, *of);
    CAPTURE(text);
    for (const char* of_kernels : {"kernel", "vector width", "exceptions, threads"})
      CHECK_FALSE(contains(text, of_kernels));
    return text;
  };
  const std::string fault = said("ctypes.c_int.from_address(0).value", "");
  CAPTURE(fault);
  CHECK(contains(fault, "because   SEGV (Segmentation fault) while reading address 0x0\n"));
  CHECK(contains(fault, "to do     run the constructor of ModelNew"));
  CHECK(contains(fault, "Behind a signal"));
  CHECK(contains(said("os._exit(3)", "ended"), "to do     return from forward"));
  // As libgomp ends a process in which it can start no thread.
  const std::string threads = said(
      "import threading\n"
      "        try: threading.Thread(target=print).start()\n"
      "        except RuntimeError: ctypes.CDLL(None).exit(1)",
      "");
  CAPTURE(threads);
  CHECK(contains(threads, "ended itself with status 1, after it was refused a thread"));
  verdict refused;
  refused.kind = verdict_kind::runtime_error;
  refused.reason = "forbidden_call";
  CHECK(contains(advice_for(refused, *of), "leave out what asks the system for more"));
}

TEST_CASE("what this device class cannot run is unsupported, and not wrong") {
  if (judge() == nullptr) return;
  using enum verdict_kind;
  check_all({
      {"Triton",
       candidate(honest, "import triton\n@triton.jit\ndef k(x): pass\n", "        k[(1,)](x)\n"),
       unsupported, "Triton"},
      {"CuTe", candidate(honest, "import cutlass.cute as cute\n"), unsupported, "CuTe"},
      // Of one operator alone the generated code is a call of torch's own: it needs no compiler.
      {"torch.compile",
       candidate("f(" + std::string(honest) + ")", "",
                 "        f = torch.compile(lambda y: (y + 1).cos() * 2)\n"),
       unsupported, "compiler"},
      {"TileLang", candidate(honest, "import tilelang\n"), unsupported, "TileLang"},
      {"CUDA sources",
       candidate(honest,
                 "from torch.utils.cpp_extension import load_inline\n"
                 "e = load_inline(name='e', cpp_sources='', cuda_sources='__global__ void k() {}', "
                 "functions=[])\n"),
       unsupported, "'e'"},
      // A word that is used nowhere is no way out of a verdict.
      {"Triton that nothing launches",
       candidate("x", "import triton\n@triton.jit\ndef k(x): pass\n"), wrong_value},
      {"torch.compile of what nothing calls",
       candidate(honest, "", "        f = torch.compile(self.linear)\n"), ok},
      // Nor is it one where something else fails.
      {"torch.compile of what nothing calls, and an error",
       candidate(
           honest, "",
           "        f = torch.compile(self.linear)\n        raise ValueError('of its own')\n"),
       runtime_error, "of its own"},
      {"torch.compile of what nothing calls, and a fault",
       candidate(honest, "",
                 "        f = torch.compile(self.linear)\n"
                 "        import ctypes; ctypes.c_int.from_address(0).value\n"),
       runtime_error, "SEGV"},
      {"Triton that nothing launches, and an error at its import",
       candidate(honest, "import triton\n@triton.jit\ndef k(x): pass\nopen('/etc/shadow')\n"),
       compile_error, "shadow"},
      {"torch.compile whose failure it tells in its own words",
       candidate("f(x)", "",
                 "        def f(x):\n"
                 "            try: return torch.compile(lambda y: (y + 1).cos() * 2)(x)\n"
                 "            except Exception as e: raise ValueError('compiling') from e\n"),
       unsupported, "compiler"},
      {"the words in a comment alone", candidate(honest, "# @triton.jit, load_inline\n"), ok},
  });
}

TEST_CASE("a reference that no candidate can be compared with is not a candidate's fault") {
  if (judge() == nullptr) return;
  const auto with_forward = [](const std::string& result) {
    std::string text = layered;
    const auto at = text.find("torch.relu(");
    return text.replace(at, text.find('\n', at) - at, result);
  };
  const auto said = [&](const std::string& reference) {
    const verdict v = judged(candidate(honest), task_of(reference));
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == name_of(verdict_kind::invalid_reference));
    return v.detail;
  };
  CHECK(contains(said(with_forward("x + torch.rand(1, generator=globals().setdefault('g', "
                                   "torch.Generator()))")),
                 "two results for one input"));
  CHECK(contains(said(with_forward("undefined_name")), "undefined_name"));
  CHECK(contains(said(with_forward("x.to(torch.complex64)")), "complex64"));
  // One that ends its process is not this host's failure either.
  CHECK(contains(said(std::string("import os\n") + layered + "\nos._exit(3)\n"), "ended twice"));
  CHECK(contains(said(with_forward("__import__('os')._exit(3)")), "ended twice"));
  CHECK(judge()->trouble() == std::nullopt);
  std::string huge = layered;
  huge.replace(huge.find("torch.rand(24, 32)"), 18, "torch.rand(1 << 24, 32)");
  const verdict large = judged(candidate(honest), task_of(huge));
  CHECK(large.kind == verdict_kind::unsupported);
  CHECK(contains(large.detail, "on a core at most 1024"));
}

TEST_CASE("a task without an input tensor is refused: a stored result would be right") {
  if (judge() == nullptr) return;
  const auto source_of = [](const std::string& name, const std::string& forward,
                            const std::string& inputs) {
    return "import torch\n\nclass " + name + "(torch.nn.Module):\n" +
           "    def __init__(self):\n        super().__init__()\n"
           "        self.table = torch.rand(24, 32)\n        self.calls = 0\n"
           "    def forward(self, *numbers):\n        " +
           forward + "\n\ndef get_inputs():\n    return " + inputs + "\n";
  };
  const auto judged_with = [&](const std::string& forward, const std::string& inputs,
                               bool degenerate = false) {
    task subject = *task_of(source_of("Model", forward, inputs));
    subject.degenerate = degenerate;
    return judged(source_of("ModelNew", forward, inputs), std::make_shared<const task>(subject));
  };
  const std::string doubles = "return self.table * 2";
  for (const char* const inputs : {"[]", "[0.5, 3]", "[torch.rand(1).item()]"}) {
    const verdict v = judged_with(doubles, inputs);
    CAPTURE(inputs);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == name_of(verdict_kind::invalid_reference));
    CHECK(contains(v.detail, "get_inputs gives no tensor"));
    CHECK(contains(v.detail, "mark the task degenerate"));
  }
  // Controls: it is meant; results differ from call to call; and there is a tensor.
  const verdict meant = judged_with(doubles, "[]", true);
  CAPTURE(meant.detail);
  CHECK(name_of(meant.kind) == "ok");
  const verdict state = judged_with("self.calls += 1; return self.table * self.calls", "[]");
  CAPTURE(state.detail);
  CHECK(name_of(state.kind) == "ok");
  CHECK(name_of(judged_with("return self.table * numbers[0]", "[torch.rand(24, 32)]").kind) ==
        "ok");
}

TEST_CASE("a task in 16 bits is judged with the room that 16 bits need") {
  if (judge() == nullptr) return;
  const auto of = task_of(layered, torch_precision::bf16);
  const verdict same = judged(candidate(honest), of);
  CAPTURE(same.detail);
  CHECK(same.kind == verdict_kind::ok);
  CHECK(judged(candidate("torch.relu(self.linear(x)) * self.scale * factor * 1.2 + self.shift"), of)
            .kind == verdict_kind::wrong_value);
}

TEST_CASE("an inline extension in C++ is built ahead, and either route gives the same verdicts") {
  if (judge() == nullptr) return;
  const std::string& source = relu_times;
  const auto asks_for = [](const std::string& text) {
    return imports_load_inline + "extension = " + load_inline_of(text);
  };
  // What has no slim form is built with torch's own headers: this word alone decides it.
  const std::string full = source + "// torch::jit\n";
  const auto has_slim_form = [](const std::string& text) {
    quern::env::extension_request request;
    request.cpp_sources = {text};
    return quern::env::slim_sources(request, [](std::string_view) { return false; }).has_value();
  };
  CHECK(has_slim_form(source));
  CHECK_FALSE(has_slim_form(full));
  const auto raises = verdict_kind::runtime_error;
  for (const auto& [arguments, wanted] :
       {std::pair("factor, 0", verdict_kind::ok), std::pair("factor, 1", verdict_kind::wrong_value),
        std::pair("-factor, 0", raises)}) {
    const std::string result = std::string("extension.relu_times(self.linear(x), ") + arguments +
                               ") * self.scale + self.shift";
    for (const std::string& text : {source, full}) {
      const verdict v = judged(candidate(result, asks_for(text)));
      CAPTURE(arguments);
      CAPTURE(text);
      CAPTURE(v.detail);
      CHECK(name_of(v.kind) == name_of(wanted));
      CHECK(contains(v.detail, "a factor above 0 is needed") == (wanted == raises));
    }
  }
  std::string broken = source;
  broken.replace(broken.find("auto y = "), 9, "auto z = ");
  const verdict refused = judged(candidate("extension.relu_times(x, 1, 0)", asks_for(broken)));
  CAPTURE(refused.detail);
  CHECK(refused.kind == verdict_kind::compile_error);
  REQUIRE(refused.compiler);
  CHECK(contains(refused.compiler->text, "'y' was not declared"));
  // The text is that of torch's own headers.
  CHECK(contains(refused.compiler->text, "main.cpp:"));
  CHECK_FALSE(contains(refused.compiler->text, "quern"));
}

TEST_CASE("an extension that forward alone asks for is built ahead") {
  if (judge() == nullptr) return;
  // None of these has a request of its own: what another case has built is not built again.
  const std::string helper =
      imports_load_inline + "def extension():\n    return " + load_inline_of(relu_times);
  const std::string result =
      "extension().relu_times(self.linear(x), factor, 0) * self.scale + self.shift";
  const std::string kept =
      "        if not hasattr(self, 'made'): self.made = extension()\n"
      "        assert x.device.type == 'cpu' and not x.is_cuda\n"
      "        x = x.cpu() * torch.ones(1, device=x.device)\n";
  using enum verdict_kind;
  check_all({
      {"in each call", candidate(result, helper), ok},
      {"in the first call, on the core's device",
       candidate("self.made.relu_times(self.linear(x), factor, 0) * self.scale + self.shift",
                 helper, kept),
       ok},
      {"with a wrong result", candidate("extension().relu_times(x, factor, 0)", helper),
       wrong_value},
      // A call without values does not come to it: the control of the two above.
      {"behind the value of a tensor", candidate(result, helper, "        float(x.sum())\n"),
       runtime_error, "LateBuild"},
      {"in a call that raises", candidate(result, helper, "        raise ValueError('no luck')\n"),
       runtime_error, "ValueError: no luck"},
      {"behind a loop without end", candidate(result, helper, "        while True: pass\n"),
       timeout},
      {"at the end of its process", candidate(result, helper, "        import os; os._exit(3)\n"),
       runtime_error, "exit status 3"},
      {"of CUDA sources",
       candidate("extension().f(x)",
                 imports_load_inline +
                     "def extension():\n    return load_inline(name='e', cpp_sources='', "
                     "cuda_sources='__global__ void k() {}', functions=[])\n"),
       unsupported, "'e'"},
  });
}

TEST_CASE("a module is timed against its reference") {
  if (judge() == nullptr) return;
  // A slower module, so that no machine is so busy that it comes out as fast.
  const std::string source =
      candidate("y", "", "        for _ in range(20): y = " + std::string(honest) + "\n");
  // Coarsely, so that a busy machine gives a verdict, too.
  auto coarse = options();
  coarse.time_budget_s = 2;
  coarse.precision = 0.06;
  coarse.noise_limit = 0.5;
  const auto by = pytorch_evaluator::open(coarse).value();
  evaluation_request request;
  request.subject = task_of(layered);
  request.source = source;
  verdict v = by->evaluate(request);
  for (int more = 0; more < 3 && v.kind == verdict_kind::noisy; ++more)
    v = by->evaluate(request);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == name_of(verdict_kind::ok));
  REQUIRE(v.speedup_e2);
  CHECK(*v.speedup_e2 < 50);
  CHECK(v.device_class == torch_device_class());
  REQUIRE(v.time);
  CHECK(v.time->windows > 0);
}

TEST_CASE("an evaluator is not opened with a clock that could decide nothing") {
  const auto refused = [](auto change, const std::string& said) {
    pytorch_evaluator_options bad = options();
    change(bad);
    const auto opened = pytorch_evaluator::open(bad);
    REQUIRE(!opened);
    CHECK(opened.error().code == quern::base::errc::invalid_argument);
    CAPTURE(opened.error().message);
    CHECK(contains(opened.error().message, said));
  };
  refused([](auto& o) { o.time_budget_s = 0; }, "time_budget_s 0 is not positive");
  refused([](auto& o) { o.precision = 0.07; }, "precision 0.07 is not within (0, 0.06]");
  refused([](auto& o) { o.noise_limit = 0.001; }, "noise_limit 0.001 is not between");
  refused([](auto& o) { o.noise_limit = 0.6; }, "noise_limit 0.6 is not between");
  refused([](auto& o) { o.load_cpu_s = -1; }, "load_cpu_s -1 must be positive");
}

TEST_CASE("one identity for control and host: comments and layout do not make another candidate") {
  const std::string text = candidate(honest);
  std::string other = "# a comment\n" + text;
  CHECK(pytorch_lane.identity(text) == pytorch_lane.identity(other));
  CHECK(pytorch_lane.identity(text) != pytorch_lane.identity(candidate("x")));
  if (judge() == nullptr) return;
  CHECK(judged(text).source == quern::base::to_hex(pytorch_lane.identity(other)));
}
