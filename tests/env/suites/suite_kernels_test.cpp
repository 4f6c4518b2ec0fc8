// Every plain kernel of the shipped suites is right, by the real pipeline: references, tolerances,
// hidden sizes and distributions fit together.
#include <memory>
#include <string>
#include <vector>

#include "env/lanes/cpp/cpp_evaluator.hpp"
#include "env/lanes/cpp/cpp_oracle.hpp"
#include "env/task/suite.hpp"
#include "env/tensor_task/check.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

env::evaluator_options options() {
  env::evaluator_options result;
  result.runner_program = test::program_dir() / "quern-runner";
  result.reference_program = test::program_dir() / "quern-torch";
  result.sandbox_required = false;
  return result;
}

std::vector<env::task> all_tasks() {
  std::vector<env::task> result;
  for (const auto* name : {"cpu", "cpu_quick"}) {
    const auto suite = env::load_suite(test::source_dir() / "env/suites" / name);
    REQUIRE_MESSAGE(suite.has_value(), suite.error().message);
    for (const env::suite_member& member : suite->members)
      result.push_back(member.task);
  }
  return result;
}

}  // namespace

TEST_CASE("the plain kernel of every task is judged right") {
  auto judge = env::cpp_evaluator::open(options());
  REQUIRE_MESSAGE(judge.has_value(), judge.error().message);
  for (const env::task& subject : all_tasks()) {
    env::evaluation_request request;
    request.subject = std::make_shared<const env::task>(subject);
    request.source = env::tensors_of(subject).plain;
    request.verify_only = true;
    env::verdict found = (*judge)->evaluate(request);
    // What says nothing about the kernel is measured again, as everywhere.
    for (int tries = 1; tries < 4 && !env::judges_candidate(found.kind); ++tries) {
      found = (*judge)->evaluate(request);
    }
    INFO(subject.name << ": " << env::summary(found));
    CHECK(found.kind == env::verdict_kind::ok);
  }
}

TEST_CASE("every task passes its own check, but for rules about time") {
  auto oracle = env::open_cpp_oracle(options());
  REQUIRE_MESSAGE(oracle.has_value(), oracle.error().message);
  for (const env::task& subject : all_tasks()) {
    const auto report = env::check_task(subject, **oracle, {}, 11);
    INFO(subject.name << ": " << (report ? "" : report.error().message));
    REQUIRE(report.has_value());
    CHECK(report->worst_error <= 0.5);
    for (const env::task_finding& finding : report->findings) {
      INFO(finding.rule << ": " << finding.text);
      CHECK((finding.rule == "too_fast" || finding.rule == "floor"));
    }
  }
}
