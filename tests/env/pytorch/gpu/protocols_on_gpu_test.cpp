// Every protocol and every baseline of modules on a GPU: a module against itself, and one that does
// four times the work.
#include "device_fixture.hpp"
#include "env/lanes/pytorch/kernelbench_exact.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

/// A call of some 800 us: what stands around it says little.
std::shared_ptr<const task> long_task() {
  static const std::shared_ptr<const task> made = task_of(wide(65536));
  return made;
}

const std::string four_times =
    candidate("y", "", "        for _ in range(4):\n            y = " + std::string(honest) + "\n");

/// The claim x 100; 0: the case has failed.
std::int64_t claim_on_device(const std::string& source, const std::string& how,
                             const std::string& baseline) {
  const verdict v = judged_on_device(source, true, long_task(), how);
  CAPTURE(how);
  CAPTURE(v.reason);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  REQUIRE(v.baseline);
  CHECK(v.baseline->name == baseline);
  MESSAGE(how << ": " << v.speedup_e2.value_or(0) << " / 100");
  return v.speedup_e2.value_or(0);
}

}  // namespace

TEST_CASE("a module against itself is 1.00 under every protocol on a GPU, and more work is told") {
  if (device_judge() == nullptr) return;
  for (const char* protocol :
       {"paired/1", "cuda_l1_train/1", "cuda_l1_report/1", "kernelbench/1"}) {
    const std::int64_t same = claim_on_device(candidate(honest), protocol, "eager");
    // One call a window, and one side after the other: KernelBench's way is less even.
    const bool one_by_one = std::string_view(protocol) == protocol_kernelbench;
    CHECK(same >= (one_by_one ? 87 : 93));
    CHECK(same <= (one_by_one ? 115 : 107));
    const std::int64_t slow = claim_on_device(four_times, protocol, "eager");
    CHECK(slow >= 15);
    CHECK(slow < 45);
  }
}

TEST_CASE("every baseline is made of a reference on a GPU, and eager is no faster than it") {
  if (device_judge() == nullptr) return;
  for (const char* baseline : {"graph", "compile", "reduce-overhead", "max-autotune"}) {
    // It is never noisy.
    const std::string how = std::string("cuda_l1_report/1@") + baseline;
    const std::int64_t same = claim_on_device(candidate(honest), how, baseline);
    CHECK(same >= 20);
    CHECK(same <= 115);
    // The control: four times the work of eager.
    const std::int64_t slow = claim_on_device(four_times, how, baseline);
    CHECK(slow < same / 2);
  }
}

TEST_CASE("a reference that asks the device in its call has no graph, and the next one has") {
  if (device_judge() == nullptr) return;
  const auto asks = task_of(R"(
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 if float(x.sum()) > -1 else x

def get_inputs():
    return [torch.rand(2048, 2048)]
)");
  const std::string doubles =
      "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
      "        return x + x\n";
  const verdict refused = judged_on_device(doubles, true, asks, "cuda_l1_report/1@graph");
  CAPTURE(refused.detail);
  CHECK(name_of(refused.kind) == "invalid_reference");
  CHECK(contains(refused.detail, "baseline graph cannot be made of this reference"));
  // The controls: the same over eager, and a graph of another one.
  CHECK(name_of(judged_on_device(doubles, true, asks, "cuda_l1_report/1").kind) == "ok");
  CHECK(claim_on_device(candidate(honest), "cuda_l1_report/1@graph", "graph") > 0);
}

TEST_CASE("kernelbench_exact/1 runs on a GPU, by its events") {
  auto* judge = device_judge();
  if (judge == nullptr) return;
  // KernelBench moves parameters and buffers alone to the GPU.
  const auto with_buffers = [](std::string text) {
    const std::string from = "self.shift = torch.rand(features)";
    text.replace(text.find(from), from.size(),
                 "self.register_buffer(\"shift\", torch.rand(features))");
    return text;
  };
  const auto of = task_of(with_buffers(wide(65536)));
  const auto exactly = [&](const std::string& source, const char* method) {
    const auto told = judge->evaluate_exactly(
        {of,
         with_buffers(source),
         {{"protocol", protocol_kernelbench_exact}, {"measure", true}, {"timing_method", method}}});
    CAPTURE(told ? "" : told.error().message);
    REQUIRE(told);
    return *told;
  };
  for (const char* method : {"cuda_event", "host_time", "do_bench", "do_bench_impl"}) {
    const auto right = exactly(candidate(honest), method);
    CAPTURE(method);
    CAPTURE(quern::base::dump(right));
    REQUIRE(right["end"] == "result");
    CHECK(right["correctness"] == true);
    CHECK(right["metadata"]["device"] == "cuda:0");
    CHECK(right["runtime"].get<double>() > 0.05);
    CHECK(right["ref_runtime"].get<double>() > 0.05);
    MESSAGE(method << ": " << right["runtime"].get<double>() << " ms, reference "
                   << right["ref_runtime"].get<double>() << " ms");
  }
  // The control.
  CHECK(exactly(candidate(std::string(honest) + " * 1.01"), "cuda_event")["correctness"] == false);
}
