// quern show and quern why on runs in every state, as text and as JSON.
#include "base/file.hpp"
#include "base/json.hpp"
#include "e2e/run_fixture.hpp"
#include "support/written_run.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

struct showing {
  base::temp_folder folder = std::move(base::temp_folder::make("show").value());
  fs::path path = folder.path() / "run";
  int logs = 0;

  finished quern(std::vector<std::string> words) {
    words.insert(words.begin(), program("quern"));
    return run_to_end(words, folder.path() / ("log" + std::to_string(logs++)));
  }
  /// The one line of JSON that a command which succeeds prints.
  base::json json(std::vector<std::string> words) {
    words.emplace_back("--json");
    const finished end = quern(std::move(words));
    CAPTURE(end.output);
    CHECK(end.code == 0);
    const auto value = base::parse_json(end.output);
    REQUIRE(value);
    return *value;
  }
  void refused(std::vector<std::string> words, int code,
               std::initializer_list<std::string_view> parts) {
    const finished end = quern(std::move(words));
    CAPTURE(end.output);
    CHECK(end.code == code);
    for (const std::string_view part : parts)
      CHECK(contains(end.output, part));
  }
  /// What every run of `write_two_steps` shows, whatever its state.
  void check_two_steps(const char* state_of_third) {
    const std::string run = path.string();
    const finished list = quern({"show", run});
    CAPTURE(list.output);
    CHECK(list.code == 0);
    CHECK(contains(list.output, "step 2: 2 samples of 1 group: 2 ok\n"));
    const finished step = quern({"show", run, "--step", "1"});
    CHECK(contains(step.output, "--- sample 1 ---\nfirst\nkernel\n"));
    CHECK(contains(step.output, "--- sample 2 ---\nsecond\n"));
    const finished wide = quern({"show", run, "--step", "1", "--width", "130"});
    CHECK(contains(wide.output, "--- sample 1 ---" + std::string(47, ' ') + " | --- sample 2"));
    CHECK(json({"show", run})["samples"].size() == 2);
    CHECK(json({"show", run, "--best", "--limit", "1"})["samples"][0]["sample"] == 4);
    CHECK(json({"show", run, "--worst", "--limit", "1"})["samples"][0]["sample"] == 2);
    CHECK(json({"show", run, "--verdict", "wrong_value"})["samples"][0]["sample"] == 2);
    CHECK(json({"show", run, "--task", "abs"})["samples"].size() == 2);
    // The escape sequence of the model stays in JSON and does not reach a terminal.
    const finished one = quern({"show", run, "3"});
    CHECK(contains(one.output, "third\\x1b[31m\n"));
    CHECK(contains(one.output, "--- prompt ---\nthe prompt of group 1\n"));
    const auto sample = json({"show", run, "3"});
    CHECK(sample["text"] == "third\x1b[31m\n");
    CHECK(sample["state"] == state_of_third);
    const finished why = quern({"why", run, "3"});
    CHECK(why.code == 0);
    CHECK(contains(why.output, "issued while version 1 was the newest"));
    CHECK(json({"why", run, "3"})["life"].size() >= 6);
  }
};

}  // namespace

TEST_CASE("a finished run is shown") {
  showing f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  run.checkpoint(2);
  run.drop({6, 7}, "stopped");
  run.close();
  f.check_two_steps("trained");
  CHECK(contains(f.quern({"why", f.path.string(), "7"}).output, "the run was stopped"));
}

TEST_CASE("a run that goes on is shown, with what is not yet decided") {
  showing f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  f.check_two_steps("consumed");
  CHECK(contains(f.quern({"show", f.path.string(), "7"}).output, "no completion yet"));
  // It is read only, and the writer writes on.
  run.generate(7, "seventh");
  CHECK(contains(f.quern({"show", f.path.string(), "7"}).output, "--- completion ---\nseventh\n"));
}

TEST_CASE("a paused run is shown; samples in flight wait") {
  showing f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  run.checkpoint(2);
  run.close();
  f.check_two_steps("trained");
  CHECK(contains(f.quern({"why", f.path.string(), "6"}).output, "waits for a verdict"));
}

TEST_CASE("a broken run is shown as far as it can be read, and what is damaged is named") {
  showing f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  const auto sample = run.ledger().sample(1);
  REQUIRE(sample);
  REQUIRE(fs::remove(run.blobs().path_of(*sample->tokens_hash)));
  // As SIGKILL leaves it: copied with its log, unfolded.
  const fs::path killed = f.folder.path() / "killed";
  fs::copy(f.path, killed, fs::copy_options::recursive);
  run.close();
  const finished lost = f.quern({"show", killed.string(), "1"});
  CAPTURE(lost.output);
  CHECK(lost.code == 0);
  CHECK(contains(lost.output, "verdict    ok 1.37x"));
  CHECK(contains(lost.output, "--- completion: "));
  CHECK(f.json({"show", killed.string(), "1"}).contains("text_lost"));
  CHECK(f.json({"show", killed.string(), "--step", "1"})["samples"].size() == 2);
  // run.db itself.
  for (const char* log : {"run.db-wal", "run.db-shm"})
    fs::remove(killed / log);
  REQUIRE(base::write_file_atomic(killed / "run.db", std::string(9000, 'x')));
  for (const char* flag : {"", "--json"}) {
    std::vector<std::string> words = {"show", killed.string()};
    if (*flag != '\0') words.emplace_back(flag);
    f.refused(words, 1, {"quern show: ", "restore " + fs::canonical(killed / "run.db").string()});
  }
  f.refused({"why", killed.string(), "1"}, 1, {"quern why: ", "run.db"});
}

TEST_CASE("an empty run has nothing to show: exit code 4, with --json an empty list") {
  showing f;
  const std::string run = f.path.string();
  test::written_run empty(f.path);
  f.refused({"show", run}, 4, {"has no samples", "run.db is missing or empty"});
  f.refused({"why", run, "1"}, 4, {"has no samples"});
  empty.open();
  f.refused({"show", run}, 4, {"has issued no samples yet"});
  f.refused({"show", run, "--json"}, 4, {R"({"quern_show":2,"samples":[],"left_out":0})"});
  f.refused({"show", run, "1"}, 4, {"has issued no samples yet"});
  f.refused({"why", run, "1", "--json"}, 4, {"has issued no samples yet"});
  empty.issue("abs", 1);
  f.refused({"show", run, "--verdict", "ok"}, 4, {"has no sample that fits"});
  CHECK(f.quern({"show", run}).code == 0);
}

TEST_CASE("a run whose run.db is gone is damaged, not new") {
  showing f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  run.close();
  for (const char* file : {"run.db", "run.db-wal", "run.db-shm"})
    fs::remove(f.path / file);
  const std::string path = f.path.string();
  f.refused({"show", path}, 1, {path + "/run.db is missing or empty", "put its run.db back"});
  f.refused({"show", path, "1", "--json"}, 1, {"put its run.db back"});
  f.refused({"why", path, "1"}, 1, {"quern why: ", "put its run.db back"});
}

TEST_CASE("a run of stage sft has no samples, and says what tells of it") {
  showing f;
  test::written_run run(f.path, "sft");
  f.refused({"show", f.path.string()}, 4, {"is of stage sft", "quern status"});
}

TEST_CASE("what is asked for wrongly is refused with what there is") {
  showing f;
  const std::string run = f.path.string();
  test::written_run(f.path).open().write_two_steps();
  f.refused({"show", run, "8"}, 2, {"no sample 8", "1 .. 7"});
  f.refused({"why", run, "0"}, 2, {"0 is outside 1 .."});
  f.refused({"show", run, "--step", "3"}, 2, {"no step 3", "1 .. 2"});
  f.refused({"show", run, "--task", "rellu"}, 2, {"did you mean 'relu'?"});
  f.refused({"show", run, "--verdict", "wrong_valeu"}, 2, {"did you mean 'wrong_value'?"});
  f.refused({"show", run, "3", "--best"}, 2, {"sample and --best do not go together"});
  f.refused({"show", run, "--limit", "0"}, 2, {"0 is outside 1 .."});
  f.refused({"show", f.folder.path().string()}, 2, {"is not a run directory"});
  // A message shows what a terminal would act on by its number.
  f.refused({"show", "\x1b[2J"}, 2, {"no run '\\x1b[2J'"});
  f.refused({"show", run, "\x1b[2J"}, 2, {"'\\x1b[2J' is not a whole number"});
  f.refused({"show", "no_such_run"}, 2, {"there is no run 'no_such_run'", "runs/no_such_run"});
}

TEST_CASE(
    "a run is found by its name below runs/, and a name is guessed at only where it is near") {
  showing f;
  test::written_run(f.folder.path() / "runs/quick_one").open().write_two_steps();
  const auto shell = [&](const std::string& words) {
    return run_to_end(
        {"/bin/sh", "-c",
         "cd " + f.folder.path().string() + " && exec " + program("quern") + " " + words},
        f.folder.path() / ("log" + std::to_string(f.logs++)));
  };
  CHECK(contains(shell("show quick_one").output, "step 2: 2 samples"));
  CHECK_FALSE(contains(shell("show something").output, "did you mean"));
  const finished data = shell("report quick_one --json 2>log");
  CAPTURE(data.output);
  CHECK(data.code == 0);
  CHECK(data.output.starts_with("{"));
  CHECK(contains(shell("compare quick_one runs/quick_one").output, "quick_one"));
  // It is found, and then the setting is refused.
  const finished set = shell("resume quick_one --set learner.stepps=1");
  CAPTURE(set.output);
  CHECK(set.code == 2);
  CHECK(contains(set.output, "did you mean 'learner.steps'?"));
  for (const char* command : {"show", "report", "resume", "compare quick_one"}) {
    const finished slip = shell(std::string(command) + " quick_onne");
    CAPTURE(slip.output);
    CHECK(slip.code == 2);
    CHECK(contains(slip.output, "there is no run 'quick_onne' (did you mean 'quick_one'?)"));
  }
}
