// Every plain kernel of the shipped suites is right, by the real pipeline: references, tolerances,
// hidden sizes and distributions fit together.
#include <memory>
#include <string>

#include "env/judge/evaluator.hpp"
#include "env/task/suite.hpp"
#include "support/test.hpp"

using namespace quern;

TEST_CASE("the plain kernel of every task is judged right") {
  env::evaluator_options options;
  options.runner_program = test::program_dir() / "quern-runner";
  options.reference_program = test::program_dir() / "quern-torch";
  options.sandbox_required = false;
  auto judge = env::evaluator::open(options);
  REQUIRE_MESSAGE(judge.has_value(), judge.error().message);
  for (const auto* name : {"cpu", "cpu_quick"}) {
    const auto suite = env::load_suite(test::source_dir() / "env/suites" / name);
    REQUIRE_MESSAGE(suite.has_value(), suite.error().message);
    for (const env::suite_member& member : suite->members) {
      env::evaluation_request request;
      request.subject = std::make_shared<const env::task>(member.task);
      request.source = member.task.plain;
      request.verify_only = true;
      env::verdict found = (*judge)->evaluate(request);
      // What says nothing about the kernel is measured again, as everywhere.
      for (int tries = 1; tries < 4 && !env::judges_candidate(found.kind); ++tries) {
        found = (*judge)->evaluate(request);
      }
      INFO(member.task.name << ": " << env::summary(found));
      CHECK(found.kind == env::verdict_kind::ok);
    }
  }
}
