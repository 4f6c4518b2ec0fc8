// A lane that no source of Quern knows, in copies of its programs: from a task file to a verdict,
// through `quern bench`, and through a run to a step of training. Real processes.
#include "base/file.hpp"
#include "base/json.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/ledger.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

std::string toy_program(const char* name) {
  return (program_dir() / "with_toy" / name).string();
}

std::string suite() {
  return (source_dir() / "tests/lanes/toy/suite").string();
}

struct toy_fixture {
  base::temp_folder folder = base::temp_folder::make().value();
  int commands = 0;
  /// The command's end; its words begin behind the program.
  finished quern(std::vector<std::string> words) {
    words.insert(words.begin(), toy_program("quern"));
    return run_to_end(std::move(words), folder.path() / ("log" + std::to_string(++commands)));
  }
};

}  // namespace

TEST_CASE_FIXTURE(toy_fixture, "a third lane has tasks that are begun, checked and judged") {
  const finished begun =
      quern({"tasks", "new", "mine", "--lane", "toy", "--folder", folder.path().string()});
  CAPTURE(begun.output);
  REQUIRE(begun.code == 0);
  const std::string task = (folder.path() / "mine.task.yaml").string();
  const finished checked = quern({"tasks", "check", task, "--sandbox", "best_effort"});
  CAPTURE(checked.output);
  CHECK(checked.code == 0);
  CHECK(contains(checked.output, "mine: ok"));

  const std::string candidate = (folder.path() / "mine.txt").string();
  REQUIRE(base::write_file_atomic(candidate, "kernel\n\n\n\n\n\n\n\n\n\n"));
  const finished judged = quern({"eval", task, candidate, "--json", "--best-effort"});
  CAPTURE(judged.output);
  REQUIRE(judged.code == 0);
  const auto verdict = base::parse_json(judged.output).value();
  CHECK(verdict["verdict"] == "ok");
  CHECK(verdict["device_class"] == "toy-text");
  CHECK(verdict["speedup_e2"] == 400);

  REQUIRE(base::write_file_atomic(candidate, "nothing\n"));
  CHECK(contains(quern({"eval", task, candidate, "--best-effort"}).output, "compile_error"));

  // `quern bench` takes files by the endings of lanes.
  const fs::path answers = folder.path() / "answers";
  fs::create_directories(answers);
  REQUIRE(base::write_file_atomic(answers / "silu_scale_plus_row.first.txt", "kernel\n"));
  const finished bench = quern({"bench", suite(), "--candidates", answers.string(), "--out",
                                (folder.path() / "results.jsonl").string(), "--best-effort"});
  CAPTURE(bench.output);
  CHECK(bench.code == 0);
  CHECK(contains(base::read_file(folder.path() / "results.jsonl").value_or(""), "toy-text"));

  const finished measured = quern({"eval", task, candidate, "--protocol", "kernelbench/1"});
  CHECK(measured.code != 0);
  CHECK(contains(measured.output, "lane toy"));
}

TEST_CASE_FIXTURE(toy_fixture,
                  "the programs of Quern do not have the lane, and name those that there are") {
  const finished checked =
      run_to_end({program("quern"), "tasks", "check", suite()}, folder.path() / "log");
  CHECK(checked.code != 0);
  CHECK(contains(checked.output, "'lane' is 'toy'"));
  CHECK(contains(checked.output, "known are cpp, cuda"));
}

TEST_CASE_FIXTURE(toy_fixture, "a run of a third lane goes from its suite to a step of training") {
  const fs::path run = folder.path() / "run";
  const finished trained =
      quern({"train", (source_dir() / "configs/quickstart.yaml").string(), "--set",
             "run.folder=" + run.string(), "--set", "env.lane=toy", "--set", "tasks.source=suite",
             "--set", "tasks.suite=" + suite(), "--set", "learner.steps=1", "--set",
             "algorithm.group_size=4", "--set", "policy.max_new_tokens=300", "--set",
             "env.sandbox=best_effort"});
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);
  check_law(run);
  CHECK(counts_of(run).of(storage::sample_state::trained) > 0);
  const auto verdicts = base::read_file(run / "metrics.jsonl");
  REQUIRE(verdicts);
  CHECK(contains(*verdicts, "\"ok\""));
  // Generated tasks need a grammar.
  const finished refused = quern({"train", (source_dir() / "configs/quickstart.yaml").string(),
                                  "--set", "env.lane=toy", "--dry-run"});
  CHECK(refused.code != 0);
  CHECK(contains(refused.output, "lane toy has no grammar"));
  const finished tuned = quern({"train", (source_dir() / "configs/demo_sft.yaml").string(), "--set",
                                "env.lane=toy", "--dry-run"});
  CHECK(tuned.code != 0);
  CHECK(contains(tuned.output, "lane toy has no grammar"));
}
