// The references of the cuda suites, run on the processor at their hidden sizes: they compile, give
// what the task declares, vary, and depend on every input. How exact and how fast they are on a
// device, `quern tasks check` says there.
#include <algorithm>
#include <memory>

#include "env/judge/evaluator_options.hpp"
#include "env/lanes/cpp/cpp_oracle.hpp"
#include "env/task/suite.hpp"
#include "env/tensor_task/check.hpp"
#include "support/tensor_task.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

/// The real oracle, but for times, which are a device's business.
class untimed_oracle final : public env::reference_oracle {
 public:
  explicit untimed_oracle(env::reference_oracle& real) : real_(real) {}
  base::expected<std::vector<env::tensor_bytes>> run(const env::task& what,
                                                     const env::task_instance& at,
                                                     std::span<const env::tensor_bytes> inputs,
                                                     bool in_f64) override {
    return real_.run(what, at, inputs, in_f64);
  }
  base::expected<std::int64_t> time_baseline(const env::task&, const env::task_instance&,
                                             std::span<const env::tensor_bytes>) override {
    return 1'000'000'000;
  }

 private:
  env::reference_oracle& real_;
};

std::unique_ptr<env::reference_oracle> open_oracle() {
  env::evaluator_options options;
  options.runner_program = test::program_dir() / "quern-runner";
  options.reference_program = test::program_dir() / "quern-torch";
  options.sandbox_required = false;
  auto oracle = env::open_cpp_oracle(options);
  REQUIRE_MESSAGE(oracle.has_value(), oracle.error().message);
  return std::move(*oracle);
}

/// The task with its last hidden size in the place of the timed one, which is too large for here.
env::task made_small(env::task what) {
  env::tensor_body& tensors = test::edit_tensors(what);
  tensors.sizes = tensors.hidden_sizes.back();
  tensors.hidden_sizes.pop_back();
  return what;
}

}  // namespace

TEST_CASE("every reference of the cuda suites passes its check at the hidden sizes") {
  const auto real = open_oracle();
  untimed_oracle oracle(*real);
  for (const auto* name : {"cuda", "cuda_quick"}) {
    const auto suite = env::load_suite(test::source_dir() / "env/suites" / name);
    REQUIRE_MESSAGE(suite.has_value(), suite.error().message);
    for (const env::suite_member& member : suite->members) {
      const auto report = env::check_task(made_small(member.task), oracle, {}, 11);
      INFO(suite->name << "/" << member.task.name << ": "
                       << (report ? "" : report.error().message));
      CHECK(report.has_value());
      if (!report) continue;
      for (const env::task_finding& finding : report->findings)
        FAIL_CHECK(finding.rule << ": " << finding.text);
      MESSAGE(member.task.name << " uses " << report->worst_error << " of its tolerance");
    }
  }
}
