// SIGTERM in the middle of an evaluation: the job is given back, and the evaluator ends.
#include <csignal>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"
#include "tests/actors/gateway/run_fixture.hpp"

using namespace quern;
using namespace quern::test;
using base::operator""_s;

namespace {

constexpr const char* slow_task = R"(quern_task: 1
name: slow
lane: cpp
family: elementwise
sizes: {n: 4096}
hidden_sizes: [{n: 7}, {n: 101}, {n: 102}, {n: 103}, {n: 104}, {n: 105}, {n: 106}, {n: 107}]
inputs:
  - {name: x, dtype: f32, shape: [n], dist: [normal, large, sparse, uniform]}
outputs:
  - {name: y, dtype: f32, shape: [n]}
tolerance: {atol: 1.0e-6, rtol: 1.0e-5}
baseline: reference
cost: {bytes: 8*n, flops: n}
reference: |
  def forward(x):
      return x * 2
)";

/// Each call is a chain of multiplications that takes a fifth of a second, below the limit of a
/// call; there are some hundred calls.
constexpr const char* slow_kernel = R"(
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  uint64_t chain = 1;
  for (int64_t r = 0; r < 150000000; ++r) chain = chain * (uint64_t)n + 3;
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2 + (chain == 0 ? 1.0f : 0.0f);
}
)";

/// Less than half of the evaluation: an evaluator that waits for it has not ended by then.
constexpr base::nanoseconds_t before_its_evaluation = 8_s;

struct evaluator_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  actors::test::run_fixture run;
  std::string endpoint = "ipc://" + (folder.path() / "hosts").string();

  evaluator_fixture() {
    run.task = slow_task;
    run.source = slow_kernel;
    actors::gateway_options options;
    options.endpoints = {endpoint};
    options.epoch = 1;
    options.heartbeat_ms = 200;
    REQUIRE(run.open(options));
  }
  /// An evaluator that has a job, with a candidate's process at work.
  base::subprocess start_evaluating() {
    auto started = base::subprocess::start(
        {.argv = {program("quern"), "evaluator", "--connect", endpoint, "--sandbox", "best_effort"},
         .log = folder.path() / "log"});
    REQUIRE(started);
    REQUIRE(run.wait([&] { return run.joined.size() == 1; }));
    run.submit(1, run.device_class);
    REQUIRE(wait_until(120_s,
                       [&] { return !find_children(started->pid(), {"quern-runner"}).empty(); }));
    return std::move(*started);
  }
};

}  // namespace

TEST_CASE("SIGTERM in the middle of an evaluation: the job is given back and the evaluator ends") {
  evaluator_fixture f;
  auto evaluator = f.start_evaluating();
  const auto children = find_children(evaluator.pid(), {"quern-"});
  REQUIRE(children.size() >= 2);
  evaluator.send_signal(SIGTERM);
  const auto end = evaluator.wait(before_its_evaluation);
  REQUIRE(end);
  CAPTURE(base::describe(*end));
  CAPTURE(base::read_file(f.folder.path() / "log").value_or(""));
  CHECK(end->code == 0);
  CHECK(end->signal == 0);
  REQUIRE(f.run.wait([&] { return f.run.lost.size() == 1; }));
  CHECK(f.run.lost.begin()->second == "the host said goodbye");
  REQUIRE(f.run.given_back.size() == 1);
  CHECK(f.run.given_back[0].outcome == actors::lease_outcome::returned);
  CHECK(f.run.given_back[0].attempt == 1);
  CHECK(f.run.accepted.empty());
  for (const pid_t child : children)
    CHECK(wait_until(5_s, [&] { return ::kill(child, 0) != 0; }));
}

TEST_CASE("SIGINT lets an evaluator finish what it has; a second one does not") {
  evaluator_fixture f;
  auto evaluator = f.start_evaluating();
  evaluator.send_signal(SIGINT);
  REQUIRE(f.run.wait([&] { return f.run.draining.size() == 1; }));
  CHECK_FALSE(evaluator.poll());
  evaluator.send_signal(SIGINT);
  const auto end = evaluator.wait(before_its_evaluation);
  REQUIRE(end);
  CHECK(end->code == 0);
  REQUIRE(f.run.wait([&] { return f.run.given_back.size() == 1; }));
}
