// Every protocol over every baseline on a device, as `quern eval` asks for them: a right kernel is
// ok and says what it was measured by and over, a wrong one never is.
#include <algorithm>
#include <cstdio>

#include "base/file.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/measure/measure_name.hpp"
#include "env/measure/protocols.hpp"
#include "env/task/task_codec.hpp"
#include "env/verdict/baseline.hpp"
#include "support/gpu.hpp"
#include "support/tensor_task.hpp"

using namespace quern;
using namespace quern::env;

namespace {

constexpr int tries = 3;

std::string kernel_file(const char* name) {
  const auto text = base::read_file(test::source_dir() / "tests/honest/cuda" / name);
  REQUIRE(text);
  return *text;
}

std::string a_tenth_off(std::string softmax) {
  const std::string_view sum = "/ sum";
  return softmax.replace(softmax.find(sum), sum.size(), "/ (1.1f * sum)");
}

/// The shipped task with a plain kernel beside its reference.
std::shared_ptr<const task> softmax_task() {
  auto loaded = load_task(test::source_dir() / "env/suites/cuda_quick/softmax_rows.task.yaml");
  REQUIRE(loaded);
  test::edit_tensors(*loaded).plain = kernel_file("softmax_rows.naive.cu");
  return std::make_shared<const task>(std::move(*loaded));
}

/// Asks again where the verdict says nothing about the candidate.
verdict judge(candidate_judge& with, const std::shared_ptr<const task>& what,
              const std::string& source, const measure_name& how) {
  evaluation_request request;
  request.subject = what;
  request.source = source;
  request.protocol = to_text(how);
  verdict v;
  for (int i = 0; i < tries; ++i) {
    request.seed = static_cast<std::uint64_t>(i);
    v = with.evaluate(request);
    if (judges_candidate(v.kind)) break;
  }
  return v;
}

}  // namespace

TEST_CASE("every protocol measures over every baseline, and none a wrong kernel") {
  if (!test::go_on_with_gpu(has_nvidia_driver(), "no NVIDIA driver is loaded")) return;
  evaluator_options options;
  options.gpu = test::the_gpu();
  options.time_budget_s = 0.2;
  options.confirm_at_once = true;
  options.input_seed = 1;
  auto opened = cuda_lane.open_judge(options);
  REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
  candidate_judge& with = **opened;
  const auto what = softmax_task();
  const std::string right = kernel_file("softmax_rows.online.cu"),
                    wrong = a_tenth_off(kernel_file("softmax_rows.naive.cu"));
  for (const std::string_view protocol :
       {protocol_paired, protocol_cuda_l1_train, protocol_cuda_l1_report, protocol_kernelbench})
    for (const baseline_choice over : {baseline_choice::eager, baseline_choice::graph,
                                       baseline_choice::compile, baseline_choice::plain}) {
      const measure_name how{std::string(protocol), over};
      CAPTURE(to_text(how));
      const verdict good = judge(with, what, right, how);
      if (over == baseline_choice::compile && good.kind == verdict_kind::infra_error &&
          test::contains(good.detail, "needs a Python")) {
        test::skip(to_text(how) + ": " + good.detail);
        continue;
      }
      CAPTURE(summary(good));
      CHECK(good.kind == verdict_kind::ok);
      CHECK(good.protocol == to_text(how));
      REQUIRE(good.baseline.has_value());
      CHECK(good.baseline->name == name_of(over));
      REQUIRE(good.time.has_value());
      REQUIRE_FALSE(good.time->ref_ns.empty());
      for (const auto& buckets : {good.time->ref_ns, good.time->cand_ns})
        CHECK(*std::min_element(buckets.begin(), buckets.end()) > 0);
      CHECK(good.speedup_e2.has_value());
      std::printf("%-32s %s\n", to_text(how).c_str(), summary(good).c_str());
    }
  // Values are looked at before anything is timed, so that once is enough.
  const verdict bad = judge(with, what, wrong, {});
  CAPTURE(summary(bad));
  CHECK(bad.kind == verdict_kind::wrong_value);
  CHECK_FALSE(bad.speedup_e2.has_value());
}
