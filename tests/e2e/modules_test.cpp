// A run of lane pytorch from task to weights: recorded modules are judged by real processes, their
// verdicts are in the ledger, and what no host can run has no reward.
#include <csignal>
#include <map>
#include <set>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "e2e/module_fixture.hpp"
#include "e2e/recorded_fixture.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/jsonl.hpp"
#include "storage/run_directory.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

std::vector<recorded_candidate> recorded_modules() {
  std::vector<recorded_candidate> all;
  for (const looped_module& of : looped_modules()) {
    const auto add = [&](const std::string& code, const std::string& verdict) {
      all.push_back({of.name, module_completion(code), verdict});
    };
    const std::string same = of.model("ModelNew", of.times, "y");
    add(same, "ok");
    add(of.model("ModelNew", 1, "y"), "ok");  // faster
    add(of.model("ModelNew", of.times, "y * 1.5"), "wrong_value");
    add(of.model("ModelNew", of.times, "y[:3]"), "wrong_shape");
    add("import triton\n\n\n@triton.jit\ndef k(x):\n    pass\n\n\n" +
            of.model("ModelNew", of.times, "k[(1,)](y)"),
        "unsupported");
  }
  return all;
}

/// What is right for a module that is recorded for a task.
using right_verdicts = std::map<std::pair<std::string, std::string>, std::string>;

struct modules_world {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path suite = folder.path() / "suite";
  fs::path recorded = folder.path() / "recorded.jsonl";

  modules_world() { write_suite(suite, looped_modules()); }

  right_verdicts record(const std::vector<recorded_candidate>& modules) const {
    write_recorded(recorded, modules);
    right_verdicts right;
    for (const recorded_candidate& one : modules)
      right[{one.task, one.text}] = one.verdict;
    return right;
  }

  [[nodiscard]] std::vector<std::string> command(const fs::path& run, std::int64_t steps) const {
    std::vector<std::string> settings = module_settings(suite);
    settings.insert(settings.end(),
                    {"policy.engine=recorded", "policy.recorded=" + recorded.string(),
                     "algorithm.group_size=5", "algorithm.groups_per_step=1",
                     "storage.checkpoint_every_steps=1", "observe.evaluation_set=false"});
    return train_command(run, steps, settings);
  }

  /// Samples by their verdicts, each of which is right and has the reward of its kind.
  static std::map<std::string, int> judged_in(const fs::path& run, const right_verdicts& right) {
    std::map<std::string, int> kinds;
    for (const played_sample& one : played_in(run)) {
      CAPTURE(one.task);
      CAPTURE(one.text);
      CAPTURE(one.verdict);
      CAPTURE(one.state);
      CAPTURE(one.drop_reason);
      const auto known = right.find({one.task.substr(0, one.task.find('@')), one.text});
      REQUIRE(known != right.end());
      if (one.verdict.empty()) {  // the run had made all its steps
        CHECK(one.state == "dropped");
        continue;
      }
      ++kinds[one.verdict];
      // A host that is too busy to measure at all says so, and nothing about the module.
      const bool unmeasured = one.verdict == "noisy" || one.verdict == "unconfirmed";
      CHECK((one.verdict == known->second || (unmeasured && known->second == "ok")));
      if (one.verdict == "unsupported") {
        CHECK(one.state == "dropped");
        CHECK(one.drop_reason == "unsupported");
        CHECK_FALSE(one.reward.has_value());
      } else if (one.state == "trained") {
        REQUIRE(one.reward.has_value());
        CHECK((*one.reward > 0) == (one.verdict == "ok"));
      }
    }
    return kinds;
  }
};

/// Verdicts of the samples that metrics.jsonl counts apart from those with a reward; those of a
/// busy machine left out.
std::set<std::string> unjudged_in_metrics(const fs::path& run) {
  std::set<std::string> kinds;
  REQUIRE(storage::read_jsonl(storage::run_paths{run}.metrics(),
                              [&](const base::json& line) -> base::status {
                                for (const auto& [kind, count] : line.at("unjudged").items())
                                  kinds.insert(kind);
                                return {};
                              }));
  kinds.erase("noisy");
  kinds.erase("unconfirmed");
  return kinds;
}

}  // namespace

TEST_CASE("modules: from task to steps, through a pause; what cannot run here has no reward") {
  if (!has_module_python()) return;
  const modules_world w;
  const right_verdicts right = w.record(recorded_modules());
  const fs::path run = w.folder.path() / "run", log = w.folder.path() / "log";
  const auto command = w.command(run, 400);
  auto control = base::subprocess::start({.argv = command, .log = log});
  REQUIRE(control);
  wait_until(300_s, [&] { return version_of(run) >= 2 || control->poll(); });
  control->send_signal(SIGTERM);
  const auto paused = control->wait(120_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(paused);
  CHECK(paused->code == 3);
  const std::int64_t version = version_of(run);
  CHECK(version >= 2);
  CHECK(counts_of(run).law_holds());

  const finished resumed = run_to_end({program("quern"), "resume", run.string(), "--set",
                                       "learner.steps=" + std::to_string(version + 2)},
                                      w.folder.path() / "resumed");
  CAPTURE(resumed.output);
  REQUIRE(resumed.code == 0);
  check_law(run);
  CHECK(version_of(run) == version + 2);
  check_played(run, config_of(command));
  const auto kinds = modules_world::judged_in(run, right);
  for (const char* kind : {"ok", "wrong_value", "wrong_shape", "unsupported"}) {
    CAPTURE(kind);
    CHECK(kinds.contains(kind));
  }
  CHECK(drop_reasons_of(run).contains("unsupported"));
  CHECK(unjudged_in_metrics(run) == std::set<std::string>{"unsupported"});
}

// The control: verdicts belong to modules and tasks, not to places in a file.
TEST_CASE("modules that are recorded for another task are never right") {
  if (!has_module_python()) return;
  const modules_world w;
  auto modules = recorded_modules();
  const auto tasks = looped_modules();
  for (recorded_candidate& one : modules) {
    one.task = one.task == tasks[0].name ? tasks[1].name : tasks[0].name;
    if (one.verdict == "ok") one.verdict = "wrong_value";
  }
  const right_verdicts right = w.record(modules);
  const fs::path run = w.folder.path() / "run";
  const finished ended = run_to_end(w.command(run, 1), w.folder.path() / "log");
  CAPTURE(ended.output);
  REQUIRE(ended.code == 0);
  check_law(run);
  const auto kinds = modules_world::judged_in(run, right);
  CHECK_FALSE(kinds.contains("ok"));
  CHECK(kinds.contains("wrong_value"));
}
