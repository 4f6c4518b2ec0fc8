// Modules that are right, in the styles of those that people write for a GPU.
#include "device_fixture.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

struct honest_module {
  std::string name, source;
};

const std::string y = "        y = " + std::string(honest) + "\n";

std::vector<honest_module> honest_modules() {
  const auto with = [](const std::string& lines, const std::string& result = "y",
                       const std::string& before = {}) { return candidate(result, before, lines); };
  return {
      {"the reference", candidate(honest)},
      {"a buffer that is returned again and again",
       with(y + "        if not hasattr(self, 'out'): self.out = torch.empty_like(y)\n"
                "        self.out.copy_(y)\n",
            "self.out")},
      {"a side stream that is waited for",
       with("        if not hasattr(self, 'side'): self.side = torch.cuda.Stream()\n"
            "        self.side.wait_stream(torch.cuda.current_stream())\n"
            "        with torch.cuda.stream(self.side):\n    " +
            y + "        torch.cuda.current_stream().wait_stream(self.side)\n")},
      {"a side stream that nobody waits for but the end of the call",
       with("        if not hasattr(self, 'side'): self.side = torch.cuda.Stream()\n"
            "        self.side.wait_stream(torch.cuda.current_stream())\n"
            "        with torch.cuda.stream(self.side):\n    " +
            y + "        self.side.synchronize()\n")},
      {"a CUDA graph that copies its inputs",
       with("        if not hasattr(self, 'graph'):\n"
            "            self.static = x.clone()\n"
            "            warm = torch.cuda.Stream()\n"
            "            warm.wait_stream(torch.cuda.current_stream())\n"
            "            with torch.cuda.stream(warm): self.once(self.static, factor)\n"
            "            torch.cuda.current_stream().wait_stream(warm)\n"
            "            self.graph = torch.cuda.CUDAGraph()\n"
            "            with torch.cuda.graph(self.graph):\n"
            "                self.out = self.once(self.static, factor)\n"
            "        self.static.copy_(x)\n"
            "        self.graph.replay()\n",
            "self.out") +
           "\ndef once(self, x, factor): return torch.relu(self.linear(x)) * self.scale * factor + "
           "self.shift\nModelNew.once = once\n"},
      {"a wait of its own", with(y + "        torch.cuda.synchronize()\n")},
      {"a number that it asks the device for", with(y + "        float(y.sum())\n")},
      {"a result that is not contiguous", with(y, "y.t().contiguous().t()")},
      {"f64 inside",
       candidate("(torch.relu(self.linear.double()(x.double())) * self.scale.double() * factor + "
                 "self.shift.double()).float()")},
      {"in place on what is its own",
       with("        z = self.linear(x)\n        z.relu_().mul_(self.scale).mul_(factor)\n"
            "        z.add_(self.shift)\n",
            "z")},
      {"autocast that is off",
       with("        with torch.autocast('cuda', enabled=False):\n    " + y)},
      {"an event", with(y + "        torch.cuda.Event().record()\n")},
      {"gradients that nobody asks for",
       with("        with torch.enable_grad():\n    " + y, "y.detach()")},
      {"a guard around a build",
       with(y, "y",
            "try:\n    import no_such_extension\nexcept ImportError:\n    no_such_extension = "
            "None\n")},
      {"words about torch.compile and Triton",
       "# torch.compile and @triton.jit would be faster\n" + candidate(honest)},
      {"a cache of what does not depend on inputs",
       with("        if not hasattr(self, 'zero'): self.zero = torch.zeros((), device=x.device)\n" +
                y,
            "y + self.zero")},
  };
}

/// CUDA C++ by load_inline, as most of KernelBench's candidates have it.
const char* const inline_cuda = R"py(
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r'''
#include <torch/extension.h>
__global__ void finish(const float* z, const float* scale, const float* shift, float factor, float* y, int rows, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * n) return;
  float v = z[i] > 0 ? z[i] : 0;
  y[i] = v * scale[i % n] * factor + shift[i % n];
}
torch::Tensor finished(torch::Tensor z, torch::Tensor scale, torch::Tensor shift, double factor) {
  auto y = torch::empty_like(z);
  int rows = z.size(0), n = z.size(1);
  finish<<<(rows * n + 255) / 256, 256>>>(z.data_ptr<float>(), scale.data_ptr<float>(),
                                          shift.data_ptr<float>(), (float)factor, y.data_ptr<float>(), rows, n);
  return y;
}
'''
ext = load_inline(name="finish_ext",
                  cpp_sources="torch::Tensor finished(torch::Tensor z, torch::Tensor scale, torch::Tensor shift, double factor);",
                  cuda_sources=source, functions=["finished"])

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return ext.finished(self.linear(x), self.scale, self.shift, factor)
)py";

}  // namespace

TEST_CASE("honest modules in many styles are ok on a GPU") {
  if (device_judge() == nullptr) return;
  for (const honest_module& one : honest_modules()) {
    const verdict v = judged_on_device(one.source);
    CAPTURE(one.name);
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "ok");
  }
}

TEST_CASE("honest modules of files are ok on a GPU, those that compile extensions aside") {
  if (device_judge() == nullptr) return;
  const auto all = quern::tools::read_honest_modules(source_dir());
  REQUIRE(all);
  int tried = 0;
  for (const quern::tools::honest_module& one : *all) {
    // bench_pytorch has the builds of many side by side.
    if (contains(one.source, "load_inline(")) continue;
    const verdict v = judged_on_device(one.source, false, one.subject);
    CAPTURE(one.name);
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == (one.is_supported ? "ok" : "unsupported"));
    ++tried;
  }
  CHECK(tried >= 60);
}

TEST_CASE("a module with CUDA C++ of its own is built and ok, and one that is wrong is not") {
  if (device_judge() == nullptr) return;
  const verdict v = judged_on_device(inline_cuda);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  std::string wrong = inline_cuda;
  wrong.replace(wrong.find("z[i] : 0"), 8, "z[i] : 1");
  CHECK(name_of(judged_on_device(wrong).kind) == "wrong_value");
  std::string broken = inline_cuda;
  broken.replace(broken.find("int i = "), 8, "int i := ");
  const verdict refused = judged_on_device(broken);
  CHECK(name_of(refused.kind) == "compile_error");
  REQUIRE(refused.compiler);
  CHECK(contains(refused.compiler->text, "error"));
}

TEST_CASE("a module is timed against its reference, and itself is no faster") {
  if (device_judge() == nullptr) return;
  const auto subject = task_of(wide());
  const verdict same = judged_on_device(candidate(honest), true, subject);
  CAPTURE(same.detail);
  REQUIRE(name_of(same.kind) == "ok");
  REQUIRE(same.speedup_e2);
  CHECK(*same.speedup_e2 >= 95);
  CHECK(*same.speedup_e2 <= 105);
  // The control: four times the work is told.
  const verdict slow =
      judged_on_device(candidate("y", "", "        for _ in range(4):\n    " + y), true, subject);
  CAPTURE(slow.detail);
  REQUIRE(name_of(slow.kind) == "ok");
  REQUIRE(slow.speedup_e2);
  CHECK(*slow.speedup_e2 < 50);
}
