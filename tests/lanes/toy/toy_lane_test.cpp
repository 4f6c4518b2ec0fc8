// A lane that no source of Quern knows, in copies of its programs: from a task file to a verdict,
// through `quern bench`, and through a run to a step of training. Real processes.
#include <algorithm>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "lanes/toy/toy_fixture.hpp"
#include "storage/jsonl.hpp"
#include "storage/ledger.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

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

  // Its own rules refuse a task; a lane without checks says so.
  std::string text = base::read_file(task).value();
  REQUIRE(base::write_file_atomic(folder.path() / "told.task.yaml", text + "  A kernel.\n"));
  const finished told = quern({"tasks", "check", (folder.path() / "told.task.yaml").string()});
  CAPTURE(told.output);
  CHECK(told.code != 0);
  CHECK(contains(told.output, "refused told: the reference names 'kernel'"));
  text.replace(text.find("lane: toy"), 9, "lane: toy_gpu");
  REQUIRE(base::write_file_atomic(folder.path() / "gpu.task.yaml", text));
  const finished unchecked = quern({"tasks", "check", (folder.path() / "gpu.task.yaml").string()});
  CAPTURE(unchecked.output);
  CHECK(unchecked.code != 0);
  CHECK(contains(unchecked.output, "lane toy_gpu has no checks of its tasks"));

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
  REQUIRE(base::write_file_atomic(answers / "silu_scale_plus_row.second.txt", "KERNEL\n"));
  const finished bench = quern({"bench", toy_suite(), "--candidates", answers.string(), "--out",
                                (folder.path() / "results.jsonl").string(), "--best-effort"});
  CAPTURE(bench.output);
  CHECK(bench.code == 0);
  // Two texts of one candidate by the lane, though not by what C++ would make of them.
  const auto results = whole_lines_of(folder.path() / "results.jsonl");
  REQUIRE(results.size() == 3);
  const auto first = base::parse_json(results[1]).value();
  const auto second = base::parse_json(results[2]).value();
  CHECK(first["verdict"]["device_class"] == "toy-text");
  CHECK(first["source"] != second["source"]);
  CHECK(first["verdict"]["source"] == second["verdict"]["source"]);

  const finished measured = quern({"eval", task, candidate, "--protocol", "kernelbench/1"});
  CHECK(measured.code != 0);
  CHECK(contains(measured.output, "lane toy"));
}

TEST_CASE_FIXTURE(toy_fixture,
                  "the programs of Quern do not have the lane, and name those that there are") {
  const finished checked =
      run_to_end({program("quern"), "tasks", "check", toy_suite()}, folder.path() / "log");
  CHECK(checked.code != 0);
  CHECK(contains(checked.output, "'lane' is 'toy'"));
  CHECK(contains(checked.output, "known are cpp, cuda, pytorch"));
}

TEST_CASE_FIXTURE(toy_fixture, "a run of a third lane goes from its suite to a step of training") {
  const fs::path run = folder.path() / "run";
  const fs::path log = folder.path() / "control";
  std::vector<std::string> argv = {(toy_programs() / "quern").string(), "train",
                                   (source_dir() / "configs/quickstart.yaml").string()};
  for (const std::string& setting :
       {"run.folder=" + run.string(), std::string("env.lane=toy"),
        std::string("tasks.source=suite"), "tasks.suite=" + toy_suite(),
        std::string("learner.steps=4"), std::string("observe.evaluation_set=false"),
        std::string("algorithm.group_size=4"), std::string("policy.max_new_tokens=300"),
        std::string("env.sandbox=best_effort")}) {
    argv.emplace_back("--set");
    argv.push_back(setting);
  }
  auto control = base::subprocess::start({.argv = std::move(argv), .log = log});
  REQUIRE(control);
  const auto said = [&] { return base::read_file(log).value_or(""); };
  // A host that has another lane, too, joins where the run's own evaluator did, while there are
  // steps to take.
  std::vector<pid_t> own;
  REQUIRE(wait_until(120_s, [&] {
    own = find_children(control->pid(), {"evaluator", "--connect"});
    return !own.empty() || control->poll();
  }));
  CAPTURE(said());
  REQUIRE_FALSE(own.empty());
  const std::string line =
      base::read_file(fmt::format("/proc/{}/cmdline", own.front())).value_or("");
  const auto words = base::split(line, '\0');
  const auto option = std::find(words.begin(), words.end(), "--connect");
  REQUIRE(option != words.end());
  const whole_programs programs("toy_run");
  auto host = base::subprocess::start(
      {.argv = {programs.quern().string(), "evaluator", "--connect", std::string(*(option + 1)),
                "--lanes", "cpp,toy", "--sandbox", "best_effort"},
       .log = folder.path() / "host"});
  REQUIRE(host);
  const auto ended = control->wait(540_s);
  CAPTURE(said());
  CAPTURE(base::read_file(folder.path() / "host").value_or(""));
  REQUIRE(ended);
  REQUIRE(ended->code == 0);
  CHECK(contains(said(), "this run uses 1: those of lane toy on toy-text"));
  check_law(run);
  CHECK(counts_of(run).of(storage::sample_state::trained) > 0);
  int right = 0;
  REQUIRE(storage::read_jsonl(run / "metrics.jsonl", [&](const base::json& step) -> base::status {
    right += step["batch"]["verdicts"].value("ok", 0);
    return {};
  }));
  CHECK(right > 0);
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

TEST_CASE_FIXTURE(toy_fixture, "no corpus and no task is made of a lane without a grammar") {
  const std::string config = (folder.path() / "config.yaml").string();
  const std::string corpus = (folder.path() / "corpus").string();
  fs::create_directories(corpus);
  for (const std::string& tasks :
       {std::string("{}"), "{source: suite, suite: " + toy_suite() + "}"}) {
    CAPTURE(tasks);
    REQUIRE(base::write_file_atomic(config,
                                    "quern_config: 2\nenv: {lane: toy}\ntasks: " + tasks + "\n"));
    const finished refused = quern({"tasks", "corpus", "--config", config, "--folder", corpus,
                                    "--shard", "0", "--shards", "1"});
    CAPTURE(refused.output);
    CHECK(refused.code != 0);
    const bool told = contains(refused.output, "lane toy has no grammar of tasks") ||
                      contains(refused.output, "env.lane is toy, which has no grammar of tasks");
    CHECK(told);
  }
  CHECK(fs::is_empty(corpus));
  const finished generated = quern({"tasks", "generate", "--lane", "toy"});
  CAPTURE(generated.output);
  CHECK(generated.code != 0);
  CHECK(contains(generated.output, "{cpp,cuda}"));
}

TEST_CASE_FIXTURE(toy_fixture, "what a lane lacks here is said before a run, and by quern doctor") {
  const std::vector<std::string> train{"train", (source_dir() / "configs/quickstart.yaml").string(),
                                       "--set", "run.folder=" + (folder.path() / "run").string(),
                                       "--set", "env.lane=toy",
                                       "--set", "tasks.source=suite",
                                       "--set", "tasks.suite=" + toy_suite(),
                                       "--set", "env.sandbox=best_effort"};
  std::vector<std::string> dry = train;
  dry.emplace_back("--dry-run");
  const finished good = quern(dry);
  CAPTURE(good.output);
  CHECK(good.code == 0);
  for (const auto& words : {train, dry}) {
    const finished refused = quern(words, "the abacus");
    CAPTURE(refused.output);
    CHECK(refused.code == 2);
    CHECK(contains(refused.output, "env.lane"));
    CHECK(contains(refused.output, "the abacus is not here: buy one"));
  }
  CHECK_FALSE(fs::exists(folder.path() / "run"));

  const auto line_of = [](const std::string& output) {
    const auto at = output.find("lane toy ");
    const auto begin = at == std::string::npos ? at : output.rfind('\n', at);
    return at == std::string::npos ? ""
                                   : output.substr(begin + 1, output.find('\n', at) - begin - 1);
  };
  const whole_programs programs("toy_lane");
  const finished well = quern({"doctor"}, "", programs.quern());
  CAPTURE(well.output);
  CHECK(line_of(well.output).starts_with("ok "));
  CHECK(contains(line_of(well.output), "toy-text"));
  if (!contains("\n" + well.output, "\nMISS")) CHECK(well.code == 0);
  const finished ill = quern({"doctor"}, "the abacus", programs.quern());
  CAPTURE(ill.output);
  // A machine need not judge every lane.
  CHECK(ill.code == well.code);
  CHECK(line_of(ill.output).starts_with("-- "));
  CHECK(contains(line_of(ill.output), "not judged here"));
  CHECK(contains(line_of(ill.output), "the abacus is not here: buy one"));
}
