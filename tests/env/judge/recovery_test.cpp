// What fails on this host while it judges: the reference's processes are killed, the folder of
// artefacts cannot be written. Candidates do not pay for it, and the device is taken out and back.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include "base/text.hpp"
#include "pipeline_fixture.hpp"
#include "support/breakable_compiler.hpp"
#include "support/meddler.hpp"

using namespace quern::test::pipeline;

namespace {

namespace fs = std::filesystem;

std::map<pid_t, pid_t> children_of(pid_t parent, const std::string& word) {
  return quern::test::descendants(parent, word, false);
}

/// An evaluator whose reference process is known.
struct watched {
  std::map<pid_t, pid_t> others = children_of(getpid(), "quern-torch");
  std::unique_ptr<cpp_evaluator> judge;

  explicit watched(cpp_evaluator_options o) : judge(cpp_evaluator::open(std::move(o)).value()) {}

  /// The warm parent; waits for it.
  pid_t reference() const {
    for (int i = 0; i < 3000; ++i) {
      for (const auto& [one, parent] : children_of(getpid(), "quern-torch"))
        if (!others.contains(one)) return one;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL("there is no reference process");
    return -1;
  }

  void kill_reference() const {
    const pid_t victim = reference();
    REQUIRE(::kill(victim, SIGKILL) == 0);
    while (!quern::test::has_ended(victim))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

std::string against_reference() {
  return replaced(twice, "baseline: plain", "baseline: reference");
}

std::string other_task(const std::string& name) {
  return replaced(against_reference(), "name: twice", "name: " + name);
}

cpp_evaluator_options tolerant() {
  auto o = options();
  o.noise_limit = 0.5;
  return o;
}

/// Compiled anew each time.
std::string fresh_kernel(int number) {
  return kernel("const float k" + std::to_string(number) + " = 2; " +
                replaced(loop, "x[i] * 2", "x[i] * k" + std::to_string(number)));
}

/// The same, and long enough in its runner to be seen there.
std::string lasting_kernel(int number, int rounds = 20'000'000) {
  return replaced(
      fresh_kernel(number), "const float k",
      "volatile int r = 0; while (r < " + std::to_string(rounds) + ") r = r + 1; const float k");
}

}  // namespace

TEST_CASE("a reference process that was killed is started again, for tasks old and new") {
  const watched w(tolerant());
  REQUIRE(measure(*w.judge, kernel(loop), against_reference()).kind == verdict_kind::ok);
  w.kill_reference();
  // Prepared: only its baseline needs the reference.
  auto v = measure(*w.judge, fresh_kernel(1), against_reference());
  CAPTURE(v.detail);
  CHECK(v.kind == verdict_kind::ok);
  w.kill_reference();
  v = verify(*w.judge, fresh_kernel(2), other_task("new_to_it"));
  CHECK(v.kind == verdict_kind::ok);
  CHECK_FALSE(w.judge->trouble());
}

TEST_CASE("without the restart the same kill costs every later sample") {
  auto o = tolerant();
  o.restart_reference = false;
  const watched w(o);
  REQUIRE(measure(*w.judge, kernel(loop), against_reference()).kind == verdict_kind::ok);
  w.kill_reference();
  for (int i = 0; i < 4; ++i) {
    CHECK(measure(*w.judge, fresh_kernel(i), against_reference()).kind ==
          verdict_kind::infra_error);
    CHECK(verify(*w.judge, fresh_kernel(i), other_task("new_to_it")).kind ==
          verdict_kind::infra_error);
  }
  CHECK_FALSE(w.judge->trouble());
}

TEST_CASE("a reference that is killed or stopped while it is timed: once more") {
  // The child alone: stopping its warm parent is another fault, which starts with the next child.
  const auto stop = [](pid_t, pid_t child) { ::kill(child, SIGSTOP); };
  const auto end = [](pid_t parent, pid_t child) {
    ::kill(parent, SIGKILL);
    ::kill(child, SIGKILL);
  };
  const auto meet = [](bool restarts, const auto& fault) {
    auto o = tolerant();
    o.restart_reference = restarts;
    o.time_budget_s = 4;
    o.precision = 0.001;
    const watched w(o);
    // Prepared, so that whatever the reference forks now is timed.
    REQUIRE(verify(*w.judge, kernel(loop), against_reference()).kind == verdict_kind::ok);
    const pid_t reference = w.reference();
    std::thread somebody([&] {
      for (int i = 0; i < 6000; ++i) {
        if (const auto timed = children_of(reference, ""); !timed.empty()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          fault(reference, timed.begin()->first);
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    evaluation_request r;
    r.subject = task_of(against_reference());
    r.source = kernel(loop);
    auto v = w.judge->evaluate(r);
    somebody.join();
    CAPTURE(v.detail);
    if (!restarts) {
      CHECK(v.kind == verdict_kind::infra_error);
    } else {
      CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
    }
  };
  for (const bool restarts : {true, false}) {
    CAPTURE(restarts);
    meet(restarts, end);
  }
  meet(true, stop);
}

TEST_CASE("a runner that somebody killed once is no fault of the candidate") {
  const auto judge = cpp_evaluator::open(tolerant()).value();
  // Prepared, and compiled, so that the next evaluation is all runner.
  REQUIRE(verify(*judge, fresh_kernel(0)).kind == verdict_kind::ok);
  const quern::test::meddler somebody("quern-runner", SIGKILL, 1);
  const auto v = verify(*judge, lasting_kernel(1));
  CAPTURE(v.detail);
  CHECK(somebody.hits() == 1);
  CHECK(v.kind == verdict_kind::ok);
  CHECK_FALSE(judge->trouble());
}

TEST_CASE("a runner that ends each time is the candidate's doing, after one repetition") {
  const auto judge = cpp_evaluator::open(tolerant()).value();
  REQUIRE(verify(*judge, fresh_kernel(0)).kind == verdict_kind::ok);
  {
    const quern::test::meddler somebody("quern-runner", SIGKILL, 100);
    const auto v = verify(*judge, lasting_kernel(1));
    CAPTURE(v.detail);
    CHECK(somebody.hits() == 2);
    CHECK(v.kind == verdict_kind::runtime_error);
  }
  // Without its runner's socket it cannot be told from one that is being killed.
  auto o = tolerant();
  o.static_screen = false;
  const auto unscreened = cpp_evaluator::open(o).value();
  const std::string leaves = kernel(
      "for (int d = 3; d < 64; ++d) close(d); for (;;) asm volatile(\"\");", "#include <unistd.h>");
  const auto v = verify(*unscreened, leaves);
  CAPTURE(v.detail);
  CHECK(v.kind == verdict_kind::runtime_error);
}

TEST_CASE("a runner that somebody stopped once is no fault of the candidate") {
  auto o = tolerant();
  // What a stopped runner is given follows from the time of a call.
  o.call_cpu_s = 0.2;
  const auto judge = cpp_evaluator::open(o).value();
  REQUIRE(verify(*judge, fresh_kernel(0)).kind == verdict_kind::ok);
  const quern::test::meddler somebody("quern-runner", SIGSTOP, 1);
  const auto v = verify(*judge, lasting_kernel(1, 3'000'000));
  CAPTURE(v.detail);
  CHECK(somebody.hits() == 1);
  CHECK(v.kind == verdict_kind::ok);
}

TEST_CASE("a plain baseline whose runner or compiler somebody killed says nothing of the task") {
  const auto judge = cpp_evaluator::open(tolerant()).value();
  for (const bool compiler : {true, false}) {
    CAPTURE(compiler);
    const std::string source = fresh_kernel(compiler ? 1 : 0);
    // The candidate is built before, and its runner is there first.
    REQUIRE(verify(*judge, source).kind == verdict_kind::ok);
    const quern::test::meddler somebody(compiler ? "cc1plus" : "quern-runner", SIGKILL, 1,
                                        !compiler);
    evaluation_request r;
    r.subject = task_of(twice);
    r.source = source;
    const auto v = judge->evaluate(r);
    CAPTURE(v.detail);
    CHECK(somebody.hits() == 1);
    CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
    CHECK_FALSE(judge->trouble());
  }
}

TEST_CASE("a core whose artefacts cannot be stored is taken out, tested, and taken in again") {
  const auto folder = quern::base::temp_folder::make().value();
  const fs::path artefacts = folder.path() / "artefacts", away = folder.path() / "away";
  auto o = options();
  o.cache_dir = folder.path();
  o.quarantine = device_quarantine::limits{.first_pause = 0, .longest_pause = 0};
  const auto judge = cpp_evaluator::open(o).value();
  REQUIRE(verify(*judge, fresh_kernel(0)).kind == verdict_kind::ok);
  const auto failing = [&](int number, const std::string& text) {
    CHECK(verify(*judge, fresh_kernel(number), text).kind == verdict_kind::infra_error);
  };
  const auto break_it = [&] {
    fs::rename(artefacts, away);
    std::ofstream(artefacts) << "in the way";
  };
  break_it();
  failing(1, twice);
  // That tells nothing of the host, and does not begin the row anew.
  CHECK(verify(*judge, kernel("undefined_name;")).kind == verdict_kind::compile_error);
  failing(2, other_task("second"));
  CHECK_FALSE(judge->trouble());
  failing(3, twice);
  REQUIRE(judge->trouble());
  CAPTURE(judge->trouble()->reason);
  CHECK(judge->trouble()->reason.starts_with("failures: 3 evaluations in a row"));
  judge->recover();
  CHECK(judge->trouble());
  fs::remove(artefacts);
  fs::rename(away, artefacts);
  judge->recover();
  CHECK_FALSE(judge->trouble());
  CHECK(verify(*judge, fresh_kernel(4)).kind == verdict_kind::ok);
}

TEST_CASE("a core whose compiler fails whatever it is given is taken out, and in again") {
  const quern::test::breakable_compiler tool;
  const auto folder = quern::base::temp_folder::make().value();
  const std::string path = std::getenv("PATH");
  setenv("PATH", (tool.program().parent_path().string() + ":" + path).c_str(), 1);
  auto o = options();
  o.cache_dir = folder.path();
  o.quarantine = device_quarantine::limits{.first_pause = 0, .longest_pause = 0};
  auto opened = cpp_evaluator::open(o);
  setenv("PATH", path.c_str(), 1);
  const auto judge = std::move(opened.value());
  REQUIRE(verify(*judge, fresh_kernel(0)).kind == verdict_kind::ok);
  tool.break_it();
  // Right candidates and wrong ones: nothing is known of either.
  CHECK(verify(*judge, fresh_kernel(1)).kind == verdict_kind::infra_error);
  CHECK(verify(*judge, kernel("undefined_name;"), other_task("second")).kind ==
        verdict_kind::infra_error);
  CHECK_FALSE(judge->trouble());
  CHECK(verify(*judge, fresh_kernel(2)).kind == verdict_kind::infra_error);
  CHECK(judge->trouble());
  tool.mend();
  judge->recover();
  CHECK_FALSE(judge->trouble());
  CHECK(verify(*judge, fresh_kernel(1)).kind == verdict_kind::ok);
  CHECK(verify(*judge, kernel("undefined_name;")).kind == verdict_kind::compile_error);
}
