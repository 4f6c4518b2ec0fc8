// Commands that are given tasks of others, with a copy of the program that has a lane for them.
#include "base/json.hpp"
#include "e2e/run_fixture.hpp"
#include "lanes/module_tasks/module_texts.hpp"

using namespace quern;
using namespace quern::test;

namespace {

struct commands_fixture : module_folder {
  int commands = 0;
  finished quern(std::vector<std::string> words, const std::string& tree = "") {
    words.insert(words.begin(), (program_dir() / "with_modules/quern").string());
    if (!tree.empty()) words.insert(words.begin(), {"/usr/bin/env", "KERNELBENCH=" + tree});
    return run_to_end(std::move(words), folder.path() / ("log" + std::to_string(++commands)));
  }
};

const char* const short_model = "class ModelNew:\n    pass\n";

}  // namespace

TEST_CASE_FIXTURE(commands_fixture, "quern eval takes a problem, a file and a record") {
  write_tree();
  write("k.py", short_model);
  write("ref.py", module_text());
  const auto verdict_of = [&](const finished& said) {
    CAPTURE(said.output);
    REQUIRE(said.code == 0);
    return base::parse_json(said.output).value();
  };
  const auto by_option = verdict_of(quern({"eval", "kernelbench:1/3", path("k.py"), "--json",
                                           "--best-effort", "--kernelbench", path("tree")}));
  CHECK(by_option["verdict"] == "ok");
  CHECK(
      by_option["task"].get<std::string>().starts_with("level1_3_batched_matrix_multiplication@"));
  CHECK(by_option["speedup_e2"] == 1000);  // 20 lines to 2
  const auto by_variable = verdict_of(
      quern({"eval", "kernelbench:1/3", path("k.py"), "--json", "--best-effort"}, path("tree")));
  CHECK(by_variable["task"] == by_option["task"]);
  const auto half = verdict_of(quern(
      {"eval", "kernelbench:1/3", path("k.py"), "--json", "--best-effort", "--precision", "bf16"},
      path("tree")));
  CHECK(half["task"] != by_option["task"]);
  const auto pair =
      verdict_of(quern({"eval", path("ref.py"), path("k.py"), "--json", "--best-effort"}));
  CHECK(pair["task"].get<std::string>().starts_with("ref@"));

  const finished lost = quern({"eval", "kernelbench:1/3", path("k.py"), "--best-effort"});
  CHECK(lost.code == 2);
  CHECK(contains(lost.output, "git clone https://github.com/ScalingIntelligence/KernelBench"));
  const finished several =
      quern({"eval", "kernelbench:1", path("k.py"), "--kernelbench", path("tree")});
  CHECK(several.code == 2);
  CHECK(contains(several.output, "kernelbench:1 names 3 tasks, and one is needed"));
}

TEST_CASE_FIXTURE(commands_fixture, "quern tasks check takes a level, and names what it refuses") {
  write_tree();
  const finished checked =
      quern({"tasks", "check", "kernelbench:1", "--sandbox", "best_effort"}, path("tree"));
  CAPTURE(checked.output);
  CHECK(checked.code == 0);
  CHECK(contains(checked.output, "kernelbench_level1: allows host_entry; speed-up over task"));
  CHECK(contains(checked.output, "level1_12_relu: ok"));
  CHECK(contains(checked.output, "3 tasks, 0 refused"));
  CHECK_FALSE(contains(checked.output, "file_name"));
}

TEST_CASE_FIXTURE(commands_fixture,
                  "quern bench judges candidates of a level, and those of a file") {
  write_tree();
  write("answers/level1_12_relu.first.py", short_model);
  write("answers/level1_1_square_matrix_multiplication.py", "nothing\n");
  const auto bench = [&](const std::string& suite, const std::string& candidates,
                         const std::string& out) {
    return quern({"bench", suite, "--candidates", candidates, "--out", path(out), "--best-effort",
                  "--kernelbench", path("tree")});
  };
  const finished level = bench("kernelbench:1", path("answers"), "level.jsonl");
  CAPTURE(level.output);
  CHECK(level.code == 0);
  CHECK(whole_lines_of(path("level.jsonl")).size() == 3);

  const auto row = [](int task, const char* operation) {
    return base::dump(base::json{{"level_id", 1},
                                 {"task_id", task},
                                 {"ref_code", module_text(operation)},
                                 {"custom_code", short_model}}) +
           "\n";
  };
  write("h100.json", row(1, "x") + row(2, "x + 1"));
  const finished file = bench(path("h100.json"), path("h100.json"), "file.jsonl");
  CAPTURE(file.output);
  CHECK(file.code == 0);
  const auto lines = whole_lines_of(path("file.jsonl"));
  REQUIRE(lines.size() == 3);
  const auto second = base::parse_json(lines[2]).value();
  CHECK(second["candidate"] == "custom_code#2");
  CHECK(second["verdict"]["task"].get<std::string>().starts_with("level1_2@"));
}

TEST_CASE_FIXTURE(commands_fixture,
                  "quern baselines: tables that quern bench reads, and exit codes") {
  write_tree();
  const auto baselines = [&](const std::string& tasks, const std::string& out,
                             std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"baselines",     tasks,        "--out",    path(out),
                                      "--kernelbench", path("tree"), "--trials", "7",
                                      "--best-effort"};
    words.insert(words.end(), more.begin(), more.end());
    return quern(std::move(words));
  };
  const auto said = [](const finished& end, int code,
                       std::initializer_list<std::string_view> parts) {
    CAPTURE(end.output);
    CHECK(end.code == code);
    for (const std::string_view part : parts)
      CHECK(contains(end.output, part));
  };
  const std::string table = "tables/baseline_time_torch.json";
  said(baselines("kernelbench:1-2", "tables"), 0, {"4 of 4 tasks, 4 of them measured now"});
  const std::string text = base::read_file(path(table)).value();
  const auto value = base::parse_json(text).value();
  const auto& row = value["level1"]["12_ReLU.py"];
  CHECK(row["mean"].get<double>() > 1);
  CHECK(row["num_trials"] == 7);
  CHECK(row["hardware"] == "module-text");
  CHECK(value["level2"].size() == 1);
  said(baselines("kernelbench:1-2", "tables"), 0, {"4 of 4 tasks, 0 of them measured now"});
  CHECK(base::read_file(path(table)).value() == text);
  said(baselines("kernelbench:1-2", "tables", {"--hardware", "Other"}), 2, {"'Other'", "--out"});
  said(baselines("kernelbench:1", "more", {"--modes", "eager,compile"}), 2,
       {"compile: lines are counted in one way", "nothing was measured"});
  CHECK_FALSE(std::filesystem::exists(path("more")));
  said(baselines("kernelbench:4", "four.json"), 4, {"level4 7_gpt2_bs32_seq256.py: needs", "gpt2"});

  write("answers/level1_12_relu.first.py", short_model);
  said(quern({"bench", "kernelbench:1", "--candidates", path("answers"), "--out", path("r.jsonl"),
              "--best-effort", "--kernelbench", path("tree"), "--kernelbench-baselines",
              path(table), "--kernelbench-baselines", path(table), "--degenerate", "level1_12_relu",
              "--write-kernelbench", path("kb")}),
       0,
       {"baseline_time_torch.json (module-text), which has 3 of 3 tasks", "without 1 degenerate"});
  CHECK(std::filesystem::exists(path("kb/analysis_over_baselines_2.json")));

  write("tree/KernelBench/level1/5_Unready.py", module_text("x.unready()"));
  said(baselines("kernelbench:1-2", "tables"), 1,
       {"level1 5_Unready.py: it is not ready", "4 of 5"});
}
