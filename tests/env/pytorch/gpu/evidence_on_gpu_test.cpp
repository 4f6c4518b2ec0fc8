// What only a device can tell of evidence, of limits and of checks of tasks: CUPTI's names of
// kernels, memory of the driver, graphs.
#include "device_fixture.hpp"
#include "env/lanes/pytorch/gpu/device_module_checker.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

constexpr suite_policy held_by_evidence{.by_evidence = true};

verdict judged_under(const suite_policy& policy, const std::string& source) {
  evaluation_request request;
  request.subject = task_of(wide());
  request.source = source;
  request.verify_only = true;
  request.recheck = true;
  request.policy = policy;
  return device_judge()->evaluate(request);
}

/// The whole result by one kernel of its own, which cannot be wrong in f32.
const char* const own_triton = R"py(
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def finish(z, scale, shift, y, factor, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(z + row * n + at, mask=mask)
    v = tl.maximum(v, 0.0) * tl.load(scale + at, mask=mask) * factor + tl.load(shift + at, mask=mask)
    tl.store(y + row * n + at, v, mask=mask)

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        z = self.linear(x)
        y = torch.empty_like(z)
        finish[(z.shape[0],)](z, self.scale, self.shift, y, factor, z.shape[1], BLOCK=512)
        return y
)py";

const std::string replays = candidate(
    "self.out", "",
    "        if not hasattr(self, 'graph'):\n"
    "            self.static = x.clone()\n"
    "            warm = torch.cuda.Stream()\n"
    "            warm.wait_stream(torch.cuda.current_stream())\n"
    "            with torch.cuda.stream(warm): self.linear(self.static)\n"
    "            torch.cuda.current_stream().wait_stream(warm)\n"
    "            self.graph = torch.cuda.CUDAGraph()\n"
    "            with torch.cuda.graph(self.graph):\n"
    "                self.out = torch.relu(self.linear(self.static)) * self.scale * factor + "
    "self.shift\n"
    "        self.static.copy_(x)\n"
    "        self.graph.replay()\n");

}  // namespace

TEST_CASE("a profile of a call shows whose kernels it runs, and a suite may refuse by it") {
  if (device_judge() == nullptr) return;
  const verdict plain = judged_under(held_by_evidence, candidate(honest));
  REQUIRE(plain.evidence);
  CAPTURE(plain.evidence->unknown);
  MESSAGE(evidence_text(*plain.evidence));
  REQUIRE(plain.evidence->unknown.empty());
  CHECK(plain.evidence->device_ns > 0);
  CHECK(plain.evidence->ns_by_kind.contains("cublas"));
  CHECK(plain.evidence->ns_by_kind.contains("torch"));
  CHECK(share_of(*plain.evidence, own_kernels) == 0.0);
  CHECK(plain.evidence->graphs == false);
  CHECK(plain.evidence->lower_precision.empty());
  CHECK(name_of(plain.kind) == "rejected_static");
  CHECK(plain.reason == "library_calls");
  const verdict triton = judged_under({.library_calls = true, .by_evidence = true}, own_triton);
  CAPTURE(triton.detail);
  CHECK(name_of(triton.kind) == "ok");
  REQUIRE(triton.evidence);
  MESSAGE(evidence_text(*triton.evidence));
  CHECK(share_of(*triton.evidence, own_kernels).value_or(0) > 0.05);
  const verdict graph = judged_under({.library_calls = true, .by_evidence = true}, replays);
  REQUIRE(graph.evidence);
  MESSAGE(evidence_text(*graph.evidence));
  CHECK(graph.evidence->graphs == true);
  CHECK(graph.evidence->aliases_output == true);
  CHECK(graph.reason == "graphs");
  // The control.
  const verdict allowed =
      judged_under({.library_calls = true, .graphs = true, .by_evidence = true}, replays);
  CHECK(name_of(allowed.kind) == "ok");
  // f16 inside an f32 task shows, if its tolerance lets it pass at all.
  const verdict narrow = judged_under({.library_calls = true, .by_evidence = true},
                                      candidate("y.float() - y.float() + " + std::string(honest),
                                                "", "        y = self.linear(x).half() * 2\n"));
  CHECK(narrow.reason == "lower_precision");
}

TEST_CASE("evidence costs the next evaluation nothing, and stands behind everything that counts") {
  if (device_judge() == nullptr) return;
  CHECK_FALSE(judged_on_device(candidate(honest)).evidence);
  const verdict v = judged_under(held_by_evidence, candidate(honest));
  REQUIRE(v.evidence);
  CHECK(name_of(judged_on_device(candidate(honest)).kind) == "ok");
}

TEST_CASE("a module that takes more than its share of the device's memory is told the limit") {
  if (device_judge() == nullptr) return;
  const std::string takes =
      "        if not hasattr(self, 'kept'):\n"
      "            total = torch.cuda.get_device_properties(0).total_memory\n"
      "            self.kept = torch.empty(int(total * 0.6), dtype=torch.uint8, device='cuda')\n";
  const verdict v = judged_on_device(candidate(honest, "", takes));
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "oom");
  CHECK(contains(v.detail, "the limit is"));
  // The control: a tenth of the device is allowed.
  std::string less = takes;
  less.replace(less.find("0.6"), 3, "0.1");
  CHECK(name_of(judged_on_device(candidate(honest, "", less)).kind) == "ok");
}

TEST_CASE("the device's clocks stand in the verdict of a module that was timed") {
  if (device_judge() == nullptr) return;
  const verdict v = judged_on_device(candidate(honest), true, task_of(wide()));
  if (!v.device) return skip("there is no NVML");
  CHECK(v.device->looks.size() >= 2);
  CHECK(v.device->baseline_sm_mhz > 0);
  CHECK(v.device->candidate_sm_mhz > 0);
}

TEST_CASE("torch.compile is refused where it is called, and nowhere else") {
  if (device_judge() == nullptr) return;
  const std::string unused = "fast = torch.compile(lambda x: x)\n";
  CHECK(name_of(judged_on_device(candidate(honest, unused)).kind) == "ok");
  CHECK(name_of(judged_on_device(candidate("torch.relu(x)", unused)).kind) == "wrong_value");
  CHECK(name_of(judged_on_device(candidate("torch.compile(self.linear)(x)")).kind) ==
        "unsupported");
}

TEST_CASE("tasks are checked on a GPU") {
  if (device_judge() == nullptr) return;
  const auto opened = open_device_module_checker(device_options());
  CAPTURE(opened ? "" : opened.error().message);
  REQUIRE(opened);
  const auto good = (*opened)->check(*task_of(wide()), 1);
  CAPTURE(good ? "" : good.error().message);
  REQUIRE(good);
  CHECK(good->ok());
  CHECK(good->baseline_ns > 0);
  std::string ignoring = wide();
  ignoring.replace(ignoring.find("torch.relu(self.linear(x))"), 26, "torch.relu(self.shift * 2)");
  const auto bad = (*opened)->check(*task_of(ignoring), 1);
  REQUIRE(bad);
  CHECK_FALSE(bad->ok());
}
