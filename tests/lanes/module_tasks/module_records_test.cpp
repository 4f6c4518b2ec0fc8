// JSON records as tasks and candidates.
#include "env/lanes/pytorch/tasks/module_records.hpp"

#include "base/json.hpp"
#include "base/random.hpp"
#include "env/task/find_tasks.hpp"
#include "env/task/task_codec.hpp"
#include "lanes/module_tasks/module_lane.hpp"
#include "lanes/module_tasks/module_texts.hpp"

using namespace quern;
using test::contains;

namespace {

const std::string solution = "class ModelNew:\n    pass\n";

base::json cuda_l1_row(int level, int task, std::string_view operation) {
  return {{"level_id", level},
          {"task_id", task},
          {"ref_code", test::module_text(operation)},
          {"custom_code", solution + std::string(operation) + "\n"},
          {"cuda_graph_code", nullptr},
          {"cudnn_code", "None"},
          {"score_default", 1.5}};
}

struct records_fixture : test::module_folder {
  env::suite found(const std::string& file) const {
    const auto suite = env::find_tasks(path(file), {});
    REQUIRE_MESSAGE(suite.has_value(), (suite ? "" : suite.error().message));
    for (const env::suite_member& one : suite->members)
      CHECK(env::parse_task(env::to_yaml(one.task)).value() == one.task);
    return *suite;
  }
  std::string refused(const std::string& file, std::string_view text) const {
    write(file, text);
    const auto suite = env::find_tasks(path(file), {});
    return suite ? "accepted" : suite.error().message;
  }
};

}  // namespace

TEST_CASE_FIXTURE(records_fixture, "lines with the columns of KernelBench's set are its tasks") {
  write("set.jsonl",
        base::dump(base::json{{"code", test::module_text("x + 3")},
                              {"level", 1},
                              {"name", "3_Batched_matrix_multiplication"},
                              {"problem_id", 3}}) +
            "\n\n" +
            base::dump(base::json{{"code", test::module_text("x.relu()  # \xE2\x89\xA5")},
                                  {"level", 1},
                                  {"name", "12_ReLU.py"},
                                  {"problem_id", 12}}) +
            "\n");
  const env::suite set = found("set.jsonl");
  CHECK(set.name == "set");
  REQUIRE(set.members.size() == 2);
  CHECK(set.members[0].task.name == "level1_12_relu");
  CHECK(set.members[0].place == env::benchmark_place{1, 12, "12_ReLU.py"});
  // What the tree has at the same place is the same task.
  write_tree();
  CHECK(set.members[1].id ==
        env::find_tasks("kernelbench:1/3", {nullptr, path("tree"), {}}).value().members[0].id);
  CHECK(env::find_candidates(path("set.jsonl"), {}).value().empty());
  CHECK(env::find_task(path("set.jsonl") + "#level1_12_relu", {}).has_value());
}

TEST_CASE_FIXTURE(records_fixture, "CUDA-L1's lines are tasks, with candidates beside them") {
  write("h100.json", base::dump(cuda_l1_row(1, 2, "x + 2")) + "\n" +
                         base::dump(cuda_l1_row(2, 2, "x + 22")) + "\n");
  const env::suite set = found("h100.json");
  REQUIRE(set.members.size() == 2);
  CHECK(set.members[0].task.name == "level1_2");
  CHECK(set.members[1].task.name == "level2_2");
  CHECK(set.members[1].task.family == "level2");
  CHECK(contains(set.members[1].task.reference, "return x + 22"));
  CHECK(set.members[1].place == env::benchmark_place{2, 2, "2.py"});
  const auto candidates = env::find_candidates(path("h100.json"), {}).value();
  REQUIRE(candidates.size() == 2);
  CHECK(candidates[1].task == "level2_2");
  CHECK(candidates[1].id == "custom_code#2");
  CHECK(candidates[1].source == solution + "x + 22\n");
}

TEST_CASE_FIXTURE(records_fixture, "one JSON value: lists by level, a list, one record") {
  base::json row = cuda_l1_row(1, 7, "x + 7");
  row.erase("level_id");
  row["kernel_code"] = solution;
  write("codes.json", base::dump_pretty(base::json{{"1", {row}}, {"level_3", {row}}}));
  const env::suite levels = found("codes.json");
  REQUIRE(levels.members.size() == 2);
  CHECK(levels.members[0].task.name == "level1_7");
  CHECK(levels.members[1].task.name == "level3_7");
  const auto candidates = env::find_candidates(path("codes.json"), {}).value();
  REQUIRE(candidates.size() == 4);
  CHECK(candidates[1].id == "kernel_code#1");
  CHECK(candidates[3].task == "level3_7");

  write("list.json", base::dump_pretty(base::json::array(
                         {{{"original_code", test::module_text()}, {"problem_name", "My Task"}},
                          {{"original_code", test::module_text()},
                           {"problem_name", "My Task"},
                           {"kernel_code", solution}}})));
  const env::suite list = found("list.json");
  // The same module twice is one task.
  REQUIRE(list.members.size() == 1);
  CHECK(list.members[0].task.name == "my_task");
  CHECK(list.members[0].task.family == "list");
  CHECK(env::find_candidates(path("list.json"), {}).value().at(0).id == "kernel_code#2");

  write("one.json", base::dump(base::json{{"code", test::module_text()}}));
  CHECK(found("one.json").members.at(0).task.name == "task");
}

TEST_CASE_FIXTURE(records_fixture, "what is wrong with a record names its line") {
  const std::string good = base::dump(cuda_l1_row(1, 2, "x + 2")) + "\n";
  CHECK(contains(refused("a.jsonl", good + "{\"code\": \n"), "a.jsonl line 2: "));
  CHECK(contains(refused("a.json", good + "\n{\"code\": \n"), "a.json line 3: "));
  CHECK(contains(refused("a.jsonl", good + "[]\n"), "a.jsonl line 2: it is no JSON object"));
  CHECK(contains(refused("a.jsonl", good + "{}\n"),
                 "a.jsonl line 2: it has no text in ref_code, original_code, code"));
  CHECK(contains(refused("a.jsonl", good + base::dump(cuda_l1_row(1, 2, "x")) + "\n"),
                 "a.jsonl line 2 are both task level1_2"));
  CHECK(refused("a.jsonl", good + good) == "accepted");
  base::json row = cuda_l1_row(1, 3, "x");
  row["task_id"] = "three";
  CHECK(contains(refused("a.jsonl", good + base::dump(row)),
                 "a.jsonl line 2: problem_id or task_id is \"three\", it must be a number"));
  row["task_id"] = 99999999999;
  CHECK(contains(refused("a.jsonl", base::dump(row)), "must be a number"));
  row["task_id"] = -1;
  CHECK(contains(refused("a.jsonl", base::dump(row)), "must be a number of at least 0"));
  row["task_id"] = 1.5;
  CHECK(contains(refused("a.jsonl", base::dump(row)), "must be a number"));
  row["task_id"] = 1;
  row["name"] = 7;
  CHECK(contains(refused("a.jsonl", base::dump(row)), "name or problem_name is 7"));
  row.erase("name");
  row["ref_code"] = "x = 1\n";
  CHECK(contains(refused("a.jsonl", base::dump(row)),
                 "a.jsonl line 1: task 'level1_1': the "
                 "reference has no class Model"));
  row["ref_code"] = test::module_text() + "#" + std::string(70'000, 'x');
  CHECK(contains(refused("a.jsonl", base::dump(row)), "at most 65536 are allowed"));
  CHECK(contains(refused("a.jsonl", "{\"code\": \"\xFF\"}\n"), "a.jsonl line 1: "));
  CHECK(contains(refused("a.jsonl", ""), "has no Python module"));
  CHECK(contains(refused("a.json", "{\"1\": 5}"), "'1' is no list of records"));
  CHECK(contains(refused("a.json", "{\"1\": [{}]}"), "a.json '1' record 1: it has no text"));
  CHECK(contains(refused("a.json", "{"), "a.json: "));
}

TEST_CASE("mutated records are read or refused, and what is read is a task") {
  const std::vector<std::string> seeds{
      base::dump(cuda_l1_row(1, 2, "x")) + "\n" + base::dump(cuda_l1_row(2, 3, "x * 2")) + "\n",
      base::dump(base::json{{"1", {cuda_l1_row(1, 2, "x")}}}),
      base::dump(base::json::array({cuda_l1_row(1, 2, "x")}))};
  int accepted = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    base::random_stream random(5, "records_fuzz", {i});
    std::string text = seeds[random.below(seeds.size())];
    for (auto edits = random.below(4); edits > 0; --edits) {
      const std::size_t at = random.below(text.size());
      if (random.chance(0.5))
        text[at] = static_cast<char>(random.below(256));
      else
        text.erase(at, random.below(20));
    }
    const auto records = env::parse_module_records(text, "x.json");
    if (!records) {
      REQUIRE_FALSE(records.error().message.empty());
      continue;
    }
    for (const env::module_record& one : *records) {
      const auto task = env::import_module(env::module_lane, one.module, {});
      if (!task) continue;
      ++accepted;
      REQUIRE(env::parse_task(env::to_yaml(*task)).value() == *task);
    }
  }
  CHECK(accepted > 500);
}
