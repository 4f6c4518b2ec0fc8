// What fails on this host while it judges: the reference's processes are killed, the folder of
// artefacts cannot be written. Candidates do not pay for it, and the device is taken out and back.
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include "base/text.hpp"
#include "pipeline_fixture.hpp"

using namespace quern::test::pipeline;

namespace {

namespace fs = std::filesystem;

/// Living processes that `parent` has started, and whose command line has `word`.
std::set<pid_t> children_of(pid_t parent, const std::string& word) {
  std::set<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // Behind the name in parentheses: state, parent.
    const std::string stat = quern::base::read_file(entry.path() / "stat").value_or("");
    const auto end = stat.rfind(')');
    if (end == std::string::npos || end + 4 >= stat.size() || stat[end + 2] == 'Z') continue;
    if (std::strtol(stat.c_str() + end + 4, nullptr, 10) != parent) continue;
    const std::string line = quern::base::read_file(entry.path() / "cmdline").value_or("");
    if (line.find(word) != std::string::npos) found.insert(std::stoi(name));
  }
  return found;
}

/// An evaluator whose reference process is known.
struct watched {
  std::set<pid_t> others = children_of(getpid(), "quern-torch");
  std::unique_ptr<evaluator> judge;

  explicit watched(evaluator_options o) : judge(evaluator::open(std::move(o)).value()) {}

  /// The warm parent; waits for it.
  pid_t reference() const {
    for (int i = 0; i < 3000; ++i) {
      for (const pid_t one : children_of(getpid(), "quern-torch"))
        if (!others.contains(one)) return one;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL("there is no reference process");
    return -1;
  }

  void kill_reference() const {
    const pid_t victim = reference();
    REQUIRE(::kill(victim, SIGKILL) == 0);
    // Until the kernel has closed its sockets.
    while (children_of(getpid(), "quern-torch").contains(victim))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

std::string against_reference() {
  return replaced(twice, "baseline: plain", "baseline: reference");
}

std::string other_task(const std::string& name) {
  return replaced(against_reference(), "name: twice", "name: " + name);
}

evaluator_options tolerant() {
  auto o = options();
  o.noise_limit = 0.5;
  return o;
}

/// Compiled anew each time.
std::string fresh_kernel(int number) {
  return kernel("const float k" + std::to_string(number) + " = 2; " +
                replaced(loop, "x[i] * 2", "x[i] * k" + std::to_string(number)));
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

TEST_CASE("a reference that is killed while it is timed: the evaluation is made once more") {
  for (const bool restarts : {true, false}) {
    CAPTURE(restarts);
    auto o = tolerant();
    o.restart_reference = restarts;
    o.time_budget_s = 4;
    o.precision = 0.001;
    const watched w(o);
    // Prepared, so that whatever the reference forks now is timed.
    REQUIRE(verify(*w.judge, kernel(loop), against_reference()).kind == verdict_kind::ok);
    const pid_t reference = w.reference();
    std::thread killer([&] {
      for (int i = 0; i < 6000; ++i) {
        if (const auto timed = children_of(reference, ""); !timed.empty()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          ::kill(reference, SIGKILL);
          for (const pid_t one : timed)
            ::kill(one, SIGKILL);
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    evaluation_request r;
    r.subject = task_of(against_reference());
    r.source = kernel(loop);
    auto v = w.judge->evaluate(r);
    killer.join();
    CAPTURE(v.detail);
    if (!restarts) {
      CHECK(v.kind == verdict_kind::infra_error);
    } else {
      CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
    }
  }
}

TEST_CASE("a core whose artefacts cannot be stored is taken out, tested, and taken in again") {
  const auto folder = quern::base::temp_folder::make().value();
  const fs::path artefacts = folder.path() / "artefacts", away = folder.path() / "away";
  auto o = options();
  o.cache_dir = folder.path();
  o.quarantine = device_quarantine::limits{.first_pause = 0, .longest_pause = 0};
  const auto judge = evaluator::open(o).value();
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
