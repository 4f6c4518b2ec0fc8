// SIGTERM in the middle of an evaluation: the job is given back, and the evaluator ends.
#include <csignal>
#include <filesystem>
#include <optional>
#include <set>

#include <sys/file.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"
#include "tests/actors/gateway/run_fixture.hpp"

namespace fs = std::filesystem;
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

/// Whether a process has blocked SIGTERM in a thread, or handles it: it is no shell's child that
/// has not become its program yet.
bool is_watching(pid_t pid) {
  const std::string status =
      base::read_file("/proc/" + std::to_string(pid) + "/status").value_or("");
  constexpr std::uint64_t sigterm = std::uint64_t{1} << (SIGTERM - 1);
  for (const char* const field : {"SigBlk:\t", "SigCgt:\t"}) {
    const auto at = status.find(field);
    if (at == std::string::npos) continue;
    if (std::stoull(status.substr(at + 8, 16), nullptr, 16) & sigterm) return true;
  }
  return false;
}

struct evaluator_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  actors::test::run_fixture run;
  std::string endpoint = "ipc://" + (folder.path() / "hosts").string();
  fs::path temporaries = folder.path() / "temporaries";

  evaluator_fixture() {
    fs::create_directories(temporaries);
    run.task = slow_task;
    run.source = slow_kernel;
    actors::gateway_options options;
    options.endpoints = {endpoint};
    options.incarnation = 1;
    // No case here is about a host that is silent.
    options.heartbeat_ms = 5000;
    REQUIRE(run.open(options));
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(temporaries))
      found.insert(entry.path().filename().string());
    return found;
  }
  base::subprocess start() {
    auto started = base::subprocess::start(
        {.argv = {program("quern"), "evaluator", "--connect", endpoint, "--sandbox", "best_effort"},
         .environment = {"TMPDIR=" + temporaries.string()},
         .log = folder.path() / "log"});
    REQUIRE(started);
    return std::move(*started);
  }
  /// An evaluator that has a job, with a candidate's process at work.
  base::subprocess start_evaluating() {
    auto started = std::optional(start());
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
    CHECK(wait_until(before_its_evaluation, [&] { return ::kill(child, 0) != 0; }));
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

TEST_CASE("an evaluator's folders go with it, and those of killed ones with the next start") {
  evaluator_fixture f;
  // As one that was killed leaves them, and one that lives.
  for (const char* name : {"quern-work-held.aaaaaa", "quern-python-held.aaaaaa",
                           "quern-cc-held.aaaaaa", "quern-work-held.living", "quern-else.aaaaaa"}) {
    fs::create_directories(f.temporaries / name / "deep");
    REQUIRE(base::write_file_atomic(f.temporaries / name / "deep" / "file", "text"));
  }
  const fs::path living = f.temporaries / "quern-work-held.living";
  const base::unique_fd lock(::open(living.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(::flock(lock.get(), LOCK_EX | LOCK_NB) == 0);
  const std::set<std::string> stay = {"quern-work-held.living", "quern-else.aaaaaa"};

  auto first = f.start_evaluating();
  const auto while_it_works = f.names();
  CHECK_FALSE(while_it_works.contains("quern-work-held.aaaaaa"));
  CHECK_FALSE(while_it_works.contains("quern-python-held.aaaaaa"));
  CHECK_FALSE(while_it_works.contains("quern-cc-held.aaaaaa"));
  CHECK(while_it_works.size() > stay.size());  // its own
  first.send_signal(SIGKILL);
  REQUIRE(first.wait(10_s));
  CHECK(f.names().size() > stay.size());

  auto second = f.start();
  REQUIRE(f.run.wait([&] { return f.run.joined.size() == 2; }));
  second.send_signal(SIGTERM);
  const auto end = second.wait(before_its_evaluation);
  REQUIRE(end);
  CHECK(end->code == 0);
  CHECK(f.names() == stay);
  CHECK(fs::exists(living / "deep" / "file"));
}

TEST_CASE("SIGTERM at any time of its start: an evaluator leaves no folder") {
  evaluator_fixture f;
  for (int k = 0; k < 12; ++k) {
    auto evaluator = f.start();
    REQUIRE(wait_until(60_s, [&] { return is_watching(evaluator.pid()); }));
    // Earlier and later: it starts in some tenths of a second.
    std::this_thread::sleep_for(std::chrono::milliseconds(25 * k));
    evaluator.send_signal(SIGTERM);
    const auto end = evaluator.wait(before_its_evaluation);
    REQUIRE(end);
    CAPTURE(k);
    CAPTURE(base::describe(*end));
    CAPTURE(base::read_file(f.folder.path() / "log").value_or(""));
    CHECK(end->code == 0);
    CHECK(end->signal == 0);
    CHECK(f.names().empty());
  }
}
