// A terminal that is closed, and an output that nobody reads any more, cost a run nothing.
#include <csignal>
#include <map>
#include <optional>

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "env/sandbox/cgroup.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

[[noreturn]] void become(std::vector<std::string> command) {
  std::vector<char*> words;
  for (std::string& word : command)
    words.push_back(word.data());
  words.push_back(nullptr);
  ::execv(words[0], words.data());
  ::_exit(127);
}

/// Reads until `what` was said or nothing more comes.
std::string read_until(int from, std::string_view what) {
  std::string said;
  char part[4096];
  while (said.find(what) == std::string::npos) {
    const ssize_t count = ::read(from, part, sizeof part);
    if (count <= 0) break;
    said.append(part, static_cast<std::size_t>(count));
  }
  return said;
}

/// Whether a process ignores the signal; nothing where it is gone.
std::optional<bool> ignores(pid_t pid, int signal) {
  const std::string status =
      base::read_file("/proc/" + std::to_string(pid) + "/status").value_or("");
  const auto at = status.find("SigIgn:");
  if (at == std::string::npos) return std::nullopt;
  return (std::stoull(status.substr(at + 7, 20), nullptr, 16) >> (signal - 1) & 1U) != 0;
}

/// The exit code, or minus the signal; -1000 after two minutes.
int end_of(pid_t child) {
  int raw = 0;
  if (!wait_until(120_s, [&] { return ::waitpid(child, &raw, WNOHANG) == child; })) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &raw, 0);
    return -1000;
  }
  return WIFSIGNALED(raw) ? -WTERMSIG(raw) : WEXITSTATUS(raw);
}

const std::vector<std::string> quick = {"observe.evaluation_set=false",
                                        "env.protocol=cost_model/1"};

}  // namespace

TEST_CASE("a terminal that is closed pauses a run, which resume ends") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  const auto command = train_command(run, 400, quick);
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) become(command);
  REQUIRE(child > 0);
  const std::string said = read_until(terminal, "step 2/");
  CAPTURE(said);
  CHECK(contains(said, "step 2/"));
  ::close(terminal);  // The kernel sends SIGHUP, and what is written fails.
  CHECK(end_of(child) == 3);
  const std::int64_t version = version_of(run);
  CHECK(version >= 2);
  const finished resumed = run_to_end({program("quern"), "resume", run.string(), "--set",
                                       "learner.steps=" + std::to_string(version + 1)},
                                      folder.path() / "log");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(version_of(run) == version + 1);
  check_law(run);
}

TEST_CASE("a run goes on to its end when nobody reads what it says") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  const auto command = train_command(run, 2, quick);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    become(command);
  }
  ::close(ends[1]);
  const std::string said = read_until(ends[0], "\n");
  CAPTURE(said);
  ::close(ends[0]);
  CHECK(end_of(child) == 0);
  CHECK(version_of(run) == 2);
  check_law(run);
}

TEST_CASE("no process of a run is ended by a write beyond ulimit -f; its runners are") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  auto control = base::subprocess::start(
      {.argv = train_command(run, 400, quick), .log = folder.path() / "log"});
  REQUIRE(control);
  REQUIRE(wait_until(
      300_s, [&] { return !whole_lines_of(run / "metrics.jsonl").empty() || control->poll(); }));
  CHECK(ignores(control->pid(), SIGXFSZ) == true);
  std::map<std::string, int> seen;
  for (const char* role : {"generator", "learner", "evaluator"}) {
    for (const pid_t pid : find_children(control->pid(), {role})) {
      CAPTURE(role);
      CHECK(ignores(pid, SIGXFSZ) == true);
      ++seen[role];
      for (const pid_t runner : find_children(pid, {"quern-runner"})) {
        // It may have ended meanwhile.
        CHECK(ignores(runner, SIGXFSZ) != true);
      }
    }
  }
  CHECK(seen.size() == 3);
  control->send_signal(SIGTERM);
  CHECK(control->wait(120_s).value().code == 3);
}

TEST_CASE("what a run was begun with is kept: changes of config.yaml by hand are told or refused") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  auto command = train_command(run, 1, quick);
  REQUIRE(run_to_end(command, folder.path() / "log").code == 0);
  const std::string before = base::read_file(run / "config.yaml").value();
  const auto resume_with = [&](const std::string& from, const std::string& to) {
    std::string text = before;
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    REQUIRE(base::write_file_atomic(run / "config.yaml", text));
    fs::remove(folder.path() / "more");
    return run_to_end({program("quern"), "resume", run.string()}, folder.path() / "more");
  };
  const finished refused = resume_with("\n  temperature: 1\n", "\n  temperature: 0.5\n");
  CAPTURE(refused.output);
  CHECK(refused.code == 2);
  for (const char* part : {"changed by hand", "policy.temperature is fixed", "it was 1", "0.5 now"})
    CHECK(contains(refused.output, part));
  const finished told = resume_with("\n  steps: 1\n", "\n  steps: 2\n");
  CAPTURE(told.output);
  CHECK(told.code == 0);
  CHECK(contains(told.output, "changed by hand: learner.steps: 1 -> 2"));
  CHECK(version_of(run) == 2);
}

TEST_CASE("a run that was ended before it made anything begins; one whose ledger is lost is told") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  REQUIRE(run_to_end(train_command(run, 1, quick), folder.path() / "log").code == 0);
  const auto resumed = [&] {
    return run_to_end({program("quern"), "resume", run.string()}, folder.path() / "more");
  };
  fs::remove(run / "run.db");
  const finished refused = resumed();
  CAPTURE(refused.output);
  CHECK(refused.code == 2);
  for (const char* part : {"run.db is missing", "checkpoints holds", "put its run.db back"})
    CHECK(contains(refused.output, part));
  CHECK_FALSE(fs::exists(run / "run.db"));
  // What `train` has made when it is killed before its ledger.
  for (const auto& entry : fs::directory_iterator(run)) {
    const fs::path name = entry.path().filename();
    if (name != "config.yaml" && name != "meta.json" && name != "LOCK")
      fs::remove_all(entry.path());
  }
  const finished begun = resumed();
  CAPTURE(begun.output);
  CHECK(begun.code == 0);
  CHECK(contains(begun.output, "ended before anything was made: starting from the beginning"));
  CHECK(version_of(run) == 1);
  check_law(run);
}

namespace {

/// `train` behind `limit`, in a shell. It ends by itself, with a sentence and without children;
/// where it would hang this fails.
void check_limited(const fs::path& run, const std::string& limit, const fs::path& log) {
  auto settings = quick;
  settings.emplace_back("actors.restarts=1");
  std::string line = limit + " && exec";
  for (const std::string& word : train_command(run, 1, settings))
    line += " '" + word + "'";
  CAPTURE(limit);
  const finished end = run_to_end({"/bin/sh", "-c", line}, log);
  CAPTURE(end.output);
  CHECK((end.code == 1 || end.code == 2));
  // Its own words, those about a child that could not live, or those of a child that lived long
  // enough to say what it lacks.
  CHECK((contains(end.output, "quern train: cannot go on: ") ||
         contains(end.output, "quern train: no thread for ") ||
         contains(end.output, "quern: no thread for ") || contains(end.output, "learner ended ") ||
         contains(end.output, "generator ended ") ||
         contains(end.output, "quern: orchestrator: generator: cannot allocate")));
  CHECK(wait_until(60_s, [&] { return find_processes({run.string()}).empty(); }));
  // What a child could not have is told in its log as control tells it, limit and all.
  for (const char* role : {"learner", "generator"}) {
    const auto told = base::read_file(run / "logs" / (std::string(role) + ".log"));
    CHECK_FALSE((told && contains(*told, "terminate called")));
  }
}

}  // namespace

TEST_CASE("a run whose memory is limited ends by itself, with a sentence and without children") {
  const auto folder = base::temp_folder::make().value();
  // Of address space, in KiB: too little for LibTorch, for some threads of control, for most of
  // them.
  for (const int limit : {700'000, 450'000, 300'000}) {
    check_limited(folder.path() / ("run" + std::to_string(limit)),
                  "ulimit -v " + std::to_string(limit),
                  folder.path() / ("log" + std::to_string(limit)));
  }
}

TEST_CASE(
    "a run whose processes are limited ends by itself, with a sentence and without children") {
  std::string why;
  const env::cgroup_place place = env::find_cgroup_place(why);
  if (place.version == 0) return skip("no control group can be made: " + why);
  const auto folder = base::temp_folder::make().value();
  // Threads count, too: too few for control, enough for it and too few for its children.
  for (const int limit : {5, 12, 20, 40}) {
    const auto group = env::cgroup_leaf::create(place, 0, limit);
    REQUIRE_MESSAGE(group, (group ? "" : group.error().message));
    check_limited(folder.path() / ("run" + std::to_string(limit)),
                  "echo $$ > '" + (group->folders().pids / "cgroup.procs").string() + "'",
                  folder.path() / "log");
  }
}
