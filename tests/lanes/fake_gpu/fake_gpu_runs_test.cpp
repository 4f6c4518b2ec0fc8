// Runs of lane pytorch on a GPU: recorded modules, evaluator hosts of the run, and kills of every
// process. On devices that are none; with QUERN_TEST_MODULE_GPU=N on GPU N (tools/gpu_check.sh).
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "e2e/module_fixture.hpp"
#include "e2e/recorded_fixture.hpp"
#include "e2e/run_fixture.hpp"
#include "lanes/fake_gpu/fake_gpu_programs.hpp"
#include "storage/database.hpp"
#include "storage/run_lock.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

constexpr int group_size = 3;

/// A GPU of this machine, where a test is to use one.
const char* real_gpu() {
  return std::getenv("QUERN_TEST_MODULE_GPU");
}

std::vector<looped_module> modules_of_run() {
  return sleeping_modules(200, 40);
}

struct gpu_run_world {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  std::optional<fake_gpu_programs> fake;
  fs::path run = folder.path() / "run", log = folder.path() / "log";
  fs::path recorded = folder.path() / "recorded.jsonl";
  std::map<std::pair<std::string, std::string>, std::string> right;

  /// The fastest right candidates do a share of `share` of the reference's work.
  explicit gpu_run_world(const std::string& name, double share = 0.125) {
    if (real_gpu() == nullptr) fake.emplace(name);
    write_suite(folder.path() / "suite", modules_of_run());
    std::vector<recorded_candidate> all;
    for (const looped_module& of : modules_of_run()) {
      const int less = static_cast<int>(of.times * share);
      all.push_back({of.name, module_completion(of.model("ModelNew", less, "y")), "ok"});
      all.push_back({of.name, module_completion(of.model("ModelNew", of.times, "y")), "ok"});
      all.push_back(
          {of.name, module_completion(of.model("ModelNew", of.times, "y * 1.5")), "wrong_value"});
    }
    write_recorded(recorded, all);
    for (const recorded_candidate& one : all)
      right[{one.task, one.text}] = one.verdict;
  }

  [[nodiscard]] std::string quern() const { return fake ? fake->quern() : program("quern"); }
  [[nodiscard]] std::vector<std::string> environment() const {
    return fake ? fake->environment() : std::vector<std::string>();
  }
  [[nodiscard]] std::vector<std::string> command(int steps,
                                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> settings = module_settings(folder.path() / "suite");
    settings.insert(settings.end(),
                    {"env.device=gpu", fmt::format("env.gpus={}", fake ? "0" : real_gpu()),
                     "policy.engine=recorded", "policy.recorded=" + recorded.string(),
                     fmt::format("algorithm.group_size={}", group_size),
                     "algorithm.groups_per_step=1", "env.max_attempts=20",
                     "storage.checkpoint_every_steps=2", "observe.evaluation_set=false"});
    settings.insert(settings.end(), more.begin(), more.end());
    std::vector<std::string> argv = train_command(run, steps, settings);
    argv.front() = quern();
    return argv;
  }
  base::subprocess start(std::vector<std::string> argv) const {
    auto child = base::subprocess::start(
        {.argv = std::move(argv), .environment = environment(), .log = log});
    REQUIRE(child);
    return std::move(*child);
  }
  [[nodiscard]] std::string said() const { return base::read_file(log).value_or(""); }

  /// Verdicts in the ledger, each of which is right and of the device that was asked for.
  [[nodiscard]] std::map<std::string, int> check_verdicts() const {
    std::map<std::string, int> kinds;
    for (const played_sample& one : played_in(run)) {
      CAPTURE(one.task);
      CAPTURE(one.text);
      CAPTURE(one.drop_reason);
      if (one.verdict.empty()) continue;  // the run had made all its steps
      const auto known = right.find({one.task.substr(0, one.task.find('@')), one.text});
      REQUIRE(known != right.end());
      const bool unmeasured = one.verdict == "noisy" || one.verdict == "unconfirmed";
      CHECK((one.verdict == known->second || (unmeasured && known->second == "ok")));
      ++kinds[one.verdict];
    }
    auto db = storage::database::open(run / "run.db", storage::database::access::read);
    REQUIRE(db);
    auto classes = (*db)->prepare("SELECT DISTINCT json ->> 'device_class' FROM verdicts");
    REQUIRE(classes);
    std::set<std::string> found;
    while (classes->next().value())
      found.insert(classes->text(0));
    REQUIRE(found.size() == 1);
    CHECK(found.begin()->ends_with("-torch"));
    CHECK_FALSE(found.begin()->starts_with("cpu-"));
    return kinds;
  }
  /// What no evaluator could judge, and what went with it.
  [[nodiscard]] std::int64_t lost() const {
    std::int64_t sum = 0;
    for (const auto& [reason, count] : drop_reasons_of(run))
      if (reason == "infra_error" || reason == "group_mostly_lost" || reason == "invalid_reference")
        sum += count;
    return sum;
  }
};

/// Processes of the run whose control is `control`, by what they are.
std::vector<pid_t> processes_of(const gpu_run_world& w, pid_t control, const std::string& target) {
  if (target == "control") return {control};
  if (target == "evaluator") return find_children(control, {"evaluator", "--connect"});
  if (target == "generator" || target == "learner")
    return find_processes({"quern-torch", target, w.run.string()});
  std::vector<pid_t> warm;
  for (const pid_t evaluator : processes_of(w, control, "evaluator"))
    for (const pid_t one : find_children(evaluator, {"zygote.py", "devices"}))
      warm.push_back(one);
  if (target == "warm Python") return warm;
  std::vector<pid_t> found;
  for (const pid_t one : warm)
    for (const pid_t child : find_children(one, {"zygote.py"}))
      found.push_back(child);
  return found;
}

}  // namespace

TEST_CASE("a contrastive run of lane pytorch on a GPU takes hosts of that class alone") {
  if (!has_module_python()) return;
  const gpu_run_world w("module_run");
  auto control = w.start(w.command(4));
  // A host that judges the same lane on a core asks to be let in where the run's own did.
  std::vector<pid_t> own;
  wait_until(120_s, [&] {
    own = processes_of(w, control.pid(), "evaluator");
    return !own.empty() || control.poll();
  });
  CAPTURE(w.said());
  REQUIRE_FALSE(own.empty());
  const std::string line =
      base::read_file(fmt::format("/proc/{}/cmdline", own.front())).value_or("");
  const auto words = base::split(line, '\0');
  const auto option = std::find(words.begin(), words.end(), "--connect");
  REQUIRE(option != words.end());
  const fs::path other_log = w.folder.path() / "other";
  auto other = base::subprocess::start(
      {.argv = {w.quern(), "evaluator", "--connect", std::string(*(option + 1)), "--lanes",
                "pytorch", "--sandbox", "best_effort"},
       .environment = w.environment(),
       .log = other_log});
  REQUIRE(other);
  const auto refused = other->wait(300_s);
  const std::string told = base::read_file(other_log).value_or("");
  CAPTURE(told);
  REQUIRE(refused);
  CHECK(refused->code != 0);
  CHECK(contains(told, "device_class"));
  CHECK(contains(told, "-torch"));

  const auto ended = control.wait(600_s);
  CAPTURE(w.said());
  REQUIRE(ended);
  REQUIRE(ended->code == 0);
  check_law(w.run);
  CHECK(version_of(w.run) == 4);
  CHECK(w.lost() == 0);
  const auto kinds = w.check_verdicts();
  CHECK(kinds.contains("ok"));
  CHECK(kinds.contains("wrong_value"));
}

TEST_CASE("large claims of a run on a GPU are measured again on another device") {
  if (!has_module_python()) return;
  const gpu_run_world w("module_claims", 0.5);
  const fs::path suite = w.folder.path() / "suite";
  for (const looped_module& one : modules_of_run()) {
    fs::remove(suite / (one.name + ".py"));
    REQUIRE(base::write_file_atomic(suite / (one.name + ".task.yaml"), one.task_file()));
  }
  REQUIRE(base::write_file_atomic(suite / "suite.yaml", "quern_suite: 1\nrecheck_above: 1.2\n"));
  // Two hosts take turns on one device.
  auto control = w.start(w.command(3, {"env.evaluators=2"}));
  const auto ended = control.wait(600_s);
  CAPTURE(w.said());
  REQUIRE(ended);
  REQUIRE(ended->code == 0);
  check_law(w.run);
  auto db = storage::database::open(w.run / "run.db", storage::database::access::read);
  REQUIRE(db);
  auto rows = (*db)->prepare("SELECT json FROM verdicts");
  REQUIRE(rows);
  int settled = 0;
  std::string verdicts;
  while (rows->next().value()) {
    verdicts += rows->text(0) + "\n";
    const auto v = base::parse_json(rows->text(0)).value();
    if (v["verdict"] == "unconfirmed") ++settled;
    if (v["verdict"] != "ok" || v.value("speedup_e2", std::int64_t{0}) <= 120) continue;
    CAPTURE(rows->text(0));
    // Above the limit counts what another measurement has borne out.
    CHECK(v.value("confirmed", false));
    ++settled;
  }
  CAPTURE(verdicts);
  CHECK(settled > 0);
}

TEST_CASE("kill -9 of every process of a run on a GPU: nothing is lost, the same is trained") {
  if (!has_module_python()) return;
  const int steps = 10;
  // No claim here is large: on a busy machine a second measurement would not bear it out.
  const gpu_run_world w("module_kills", 0.75);
  std::optional<base::subprocess> control(w.start(w.command(steps)));
  const auto over = [&] { return control->poll().has_value(); };
  std::map<std::string, int> kills;
  const std::vector<std::string> targets{"child",     "warm Python", "evaluator", "generator",
                                         "control",   "child",       "learner",   "warm Python",
                                         "evaluator", "child"};
  for (const std::string& target : targets) {
    CAPTURE(target);
    // While an evaluation goes on: something is generated that has no verdict, and the process is
    // there.
    std::vector<pid_t> victims;
    wait_until(180_s, [&] {
      if (over()) return true;
      if (counts_of(w.run).of(storage::sample_state::generated) == 0) return false;
      victims = processes_of(w, control->pid(), target);
      return !victims.empty();
    });
    if (over()) break;
    REQUIRE_FALSE(victims.empty());
    REQUIRE(::kill(victims.back(), SIGKILL) == 0);
    ++kills[target];
    if (target != "control") continue;
    REQUIRE(control->wait(120_s));
    REQUIRE(wait_until(20_s, [&] {
      return find_processes({"quern-torch", w.run.string()}).empty() &&
             !storage::is_locked(w.run / "LOCK").value();
    }));
    control.emplace(w.start({w.quern(), "resume", w.run.string()}));
  }
  const auto ended = control->wait(600_s);
  CAPTURE(w.said());
  REQUIRE(ended);
  CHECK(ended->code == 0);
  for (const char* target : {"child", "warm Python", "evaluator", "generator", "control"}) {
    CAPTURE(target);
    CHECK(kills[target] > 0);
  }
  check_law(w.run);
  CHECK(version_of(w.run) == steps);
  std::int64_t unconfirmed = 0;
  for (const auto& [reason, count] : drop_reasons_of(w.run)) {
    MESSAGE("dropped: " << count << " " << reason);
    if (reason == "unconfirmed") unconfirmed += count;
  }
  CHECK(w.lost() == 0);
  auto kinds = w.check_verdicts();
  // A step takes one group, whose samples all have a verdict that counts, but for those that were
  // measured twice and differed. Their verdict says so, which no kill brings about.
  const auto trained = counts_of(w.run).of(storage::sample_state::trained);
  CHECK(trained <= steps * group_size);
  CHECK(trained + unconfirmed >= steps * group_size);
  CHECK(unconfirmed == kinds["unconfirmed"]);
  CHECK(kinds.contains("ok"));
  CHECK(kinds.contains("wrong_value"));
}
