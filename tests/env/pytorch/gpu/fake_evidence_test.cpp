// Evidence of how a result was computed, on a device that is none: what a verdict has of it, what a
// suite makes of it, and what a process that forges it gains.
#include <algorithm>
#include <string>

#include "tests/env/pytorch/gpu/fake_fixture.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;

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
