// kernelbench_exact/1 by the evaluator of a GPU, on a device that is none: what is put into its
// process, and what comes back. Its clocks are those of a core there.
#include "env/lanes/pytorch/kernelbench_exact.hpp"
#include "tests/env/pytorch/gpu/fake_fixture.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;

namespace {

base::json said_exactly(const std::string& source, base::json terms,
                        const std::shared_ptr<const task>& of = task_of(layered)) {
  terms["protocol"] = protocol_kernelbench_exact;
  const auto told = evaluate_exactly_on_device(*device_that_is_none(), {of, source, terms});
  CAPTURE(told ? "" : told.error().message);
  REQUIRE(told);
  return *told;
}

}  // namespace

TEST_CASE("KernelBench's own evaluation answers for a module on a GPU, and names the device") {
  if (device_that_is_none() == nullptr) return;
  const auto right = said_exactly(candidate(honest),
                                  {{"measure", true}, {"correct_trials", 3}, {"perf_trials", 4}});
  CAPTURE(base::dump(right));
  CHECK(right["end"] == "result");
  CHECK(right["compiled"] == true);
  CHECK(right["correctness"] == true);
  CHECK(right["metadata"]["device"] == "cuda:0");
  CHECK(right["metadata"]["hardware"] == "none");
  CHECK(right["metadata"]["correctness_trials"] == "(3 / 3)");
  CHECK(right["runtime_stats"]["num_trials"] == 4);
  CHECK(right["ref_runtime_stats"]["num_trials"] == 4);
  // The control.
  const auto wrong = said_exactly(candidate(std::string(honest) + " * 1.01"), {{"measure", true}});
  CHECK(wrong["compiled"] == true);
  CHECK(wrong["correctness"] == false);
  CHECK(wrong["runtime"] == -1.0);
}

TEST_CASE("what KernelBench's evaluation cannot have on a GPU here is said, and no verdict") {
  if (device_that_is_none() == nullptr) return;
  const auto compiles =
      said_exactly("import torch\n" + candidate("torch.compile(self.linear)(x)"), {});
  CHECK(compiles["end"] == "unsupported");
  CHECK(contains(compiles["text"].get<std::string>(), "torch.compile"));
  const auto ends = said_exactly("import os\nos._exit(3)\n" + candidate(honest), {});
  CHECK(ends["end"] == "lost");
  const auto alone = said_exactly("", {{"reference_only", true}, {"perf_trials", 3}});
  CHECK(alone["ref_runtime_stats"]["num_trials"] == 3);
  const auto unknown = evaluate_exactly_on_device(
      *device_that_is_none(), {task_of(layered), candidate(honest), {{"protocol", "paired/1"}}});
  REQUIRE_FALSE(unknown);
  CHECK(contains(unknown.error().message, "kernelbench_exact/1"));
}
