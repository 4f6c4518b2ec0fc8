// A whole run through the commands that a person types: control, generator, learner and evaluator
// as real processes; then each of them is killed.
#include <charconv>
#include <cstdlib>
#include <thread>

#include <dirent.h>
#include <signal.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"
#include "storage/run_lock.hpp"
#include "support/test.hpp"

using namespace quern;
namespace fs = std::filesystem;

namespace {

using base::operator""_s;
using base::operator""_ms;

std::string program(const char* name) {
  return (test::program_dir() / name).string();
}

std::vector<std::string> train_command(const fs::path& run, std::int64_t steps, bool panel) {
  return {program("quern"),
          "train",
          (test::source_dir() / "configs/quickstart.yaml").string(),
          "--set",
          "run.folder=" + run.string(),
          "--set",
          "learner.steps=" + std::to_string(steps),
          "--set",
          "algorithm.group_size=4",
          "--set",
          "tasks.count=4",
          "--set",
          "tasks.held_out_count=2",
          "--set",
          "storage.checkpoint_every_steps=1",
          "--set",
          "env.sandbox=best_effort",
          "--set",
          std::string("observe.panel=") + (panel ? "true" : "false"),
          "--set",
          "observe.panel_train=4",
          "--set",
          "observe.panel_held_out=2",
          "--set",
          "policy.max_new_tokens=300"};
}

struct finished {
  int code = -1;
  std::string output;
};

finished run_to_end(std::vector<std::string> argv, const fs::path& log) {
  auto child = base::subprocess::start({.argv = std::move(argv), .log = log});
  REQUIRE(child);
  const auto end = child->wait(600_s);
  REQUIRE_MESSAGE(end, "a command did not end within 10 minutes");
  return {end->signal == 0 ? end->code : -end->signal, base::read_file(log).value_or("")};
}

storage::state_counts counts_of(const fs::path& run) {
  auto db = storage::database::open(run / "run.db", storage::database::access::read);
  REQUIRE(db);
  auto ledger = storage::ledger::open(**db);
  REQUIRE(ledger);
  CHECK((*ledger)->audit());
  return (*ledger)->counts().value();
}

std::int64_t version_of(const fs::path& run) {
  auto db = storage::database::open(run / "run.db", storage::database::access::read);
  if (!db) return -1;
  auto ledger = storage::ledger::open(**db);
  return ledger ? (*ledger)->position()->version : -1;
}

/// Processes whose command line holds all of `words`.
std::vector<pid_t> find_processes(const std::vector<std::string>& words) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    const std::string line = base::read_file(entry.path() / "cmdline").value_or("");
    bool all = !line.empty();
    for (const std::string& word : words)
      all &= line.find(word) != std::string::npos;
    if (all) found.push_back(pid);
  }
  return found;
}

template <class Condition>
bool wait_until(base::nanoseconds_t patience, Condition condition) {
  const base::steady_clock clock;
  const base::nanoseconds_t deadline = clock.now_ns() + patience;
  while (clock.now_ns() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

void check_law(const fs::path& run) {
  const auto counts = counts_of(run);
  CHECK(counts.law_holds());
  CHECK(counts.in_flight() == 0);
  CHECK(counts.of(storage::sample_state::trained) > 0);
}

}  // namespace

TEST_CASE("train, status, sample and export do what they say") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run";
  const finished trained = run_to_end(train_command(run, 2, true), folder->path() / "log");
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);
  check_law(run);
  CHECK(version_of(run) == 2);
  CHECK(trained.output.find("mean reward, held out") != std::string::npos);
  CHECK(fs::exists(run / "panel.json"));

  const finished status =
      run_to_end({program("quern"), "status", run.string(), "--json"}, folder->path() / "status");
  REQUIRE(status.code == 0);
  const auto parsed = base::parse_json(status.output);
  REQUIRE(parsed);
  CHECK((*parsed)["running"] == false);
  CHECK((*parsed)["ledger"]["law_holds"] == true);

  REQUIRE(base::write_file_atomic(folder->path() / "prompt", "cpp-avx2\ndef forward(x):\n"));
  const finished sampled =
      run_to_end({program("quern"), "sample", run.string(), "--prompt",
                  (folder->path() / "prompt").string(), "--n", "2", "--max-tokens", "8", "--json"},
                 folder->path() / "sample");
  CAPTURE(sampled.output);
  REQUIRE(sampled.code == 0);
  const auto line = base::parse_json(sampled.output.substr(0, sampled.output.find('\n')));
  REQUIRE(line);
  CHECK((*line)["token_ids"].size() == (*line)["log_probs"].size());

  const finished exported =
      run_to_end({program("quern"), "export", run.string(), (folder->path() / "model").string()},
                 folder->path() / "export");
  CHECK(exported.code == 0);
  CHECK(fs::exists(folder->path() / "model/model.safetensors"));

  const finished again =
      run_to_end({program("quern"), "resume", run.string()}, folder->path() / "again");
  CHECK(again.code == 4);
}

TEST_CASE("generator, learner and evaluator are killed: the run goes to its end") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run";
  auto control = base::subprocess::start(
      {.argv = train_command(run, 4, false), .log = folder->path() / "log"});
  REQUIRE(control);
  const std::vector<std::vector<std::string>> victims = {{"quern-torch", "generator", run.string()},
                                                         {"quern-torch", "learner", run.string()},
                                                         {"quern", "evaluator", "--connect"}};
  for (std::size_t i = 0; i < victims.size(); ++i) {
    const bool under_way = wait_until(
        240_s, [&] { return version_of(run) >= static_cast<std::int64_t>(i) || control->poll(); });
    CHECK(under_way);
    if (control->poll()) break;
    std::vector<pid_t> pids = find_processes(victims[i]);
    if (!pids.empty()) ::kill(pids.front(), SIGKILL);
  }
  const auto end = control->wait(600_s);
  CAPTURE(base::read_file(folder->path() / "log").value_or(""));
  REQUIRE(end);
  CHECK(end->code == 0);
  check_law(run);
  CHECK(version_of(run) == 4);
}

TEST_CASE("control is killed: the others are gone, the lock is free, resume ends the run") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run";
  auto control = base::subprocess::start(
      {.argv = train_command(run, 3, false), .log = folder->path() / "log"});
  REQUIRE(control);
  REQUIRE(wait_until(300_s, [&] { return version_of(run) >= 1 || control->poll(); }));
  CAPTURE(base::read_file(folder->path() / "log").value_or(""));
  REQUIRE_FALSE(control->poll());
  control->send_signal(SIGKILL);
  REQUIRE(control->wait(10_s));
  CHECK(wait_until(5_s, [&] { return find_processes({"quern-torch", run.string()}).empty(); }));
  CHECK(storage::is_locked(run / "LOCK").value() == false);
  const finished resumed =
      run_to_end({program("quern"), "resume", run.string()}, folder->path() / "resumed");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  check_law(run);
  CHECK(version_of(run) == 3);
}
