// Files, folders and names of KernelBench's tree as tasks.
#include <cstdlib>

#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "env/task/find_tasks.hpp"
#include "env/task/task_codec.hpp"
#include "lanes/module_tasks/module_lane.hpp"
#include "lanes/module_tasks/module_texts.hpp"

using namespace quern;
using test::contains;

namespace {

std::vector<std::string> names_of(const env::suite& from) {
  std::vector<std::string> names;
  for (const env::suite_member& one : from.members) {
    names.push_back(one.task.name);
    CHECK(one.task.lane == &env::module_lane);
    CHECK(one.id == env::task_id(one.task));
    CHECK(env::parse_task(env::to_yaml(one.task)).value() == one.task);
    CHECK(one.place == env::pytorch_of(one.task).place);
    CHECK_FALSE(one.held_out);
  }
  return names;
}

struct sources_fixture : test::module_folder {
  env::source_options options;
  sources_fixture() {
    unsetenv("KERNELBENCH");
    write_tree();
    options.kernelbench = path("tree");
  }
  env::suite found(const std::string& text) const {
    const auto suite = env::find_tasks(text, options);
    REQUIRE_MESSAGE(suite.has_value(), (suite ? "" : suite.error().message));
    return *suite;
  }
  std::string refused(const std::string& text) const {
    const auto suite = env::find_tasks(text, options);
    return suite ? "accepted" : suite.error().message;
  }
};

using words = std::vector<std::string>;

}  // namespace

TEST_CASE_FIXTURE(sources_fixture, "a level, several levels and a problem are named in one word") {
  const env::suite level = found("kernelbench:1");
  CHECK(level.name == "kernelbench_level1");
  CHECK(names_of(level) == words{"level1_12_relu", "level1_1_square_matrix_multiplication",
                                 "level1_3_batched_matrix_multiplication"});
  CHECK(level.policy == env::suite_policy());
  CHECK(level.recheck_above_e2 == env::module_lane.usual_recheck_above_e2);
  CHECK(level.baseline == env::baseline_choice::of_task);
  CHECK(level.held_out.empty());
  CHECK(level.members[1].place == env::benchmark_place{1, 1, "1_Square_matrix_multiplication_.py"});
  CHECK(level.members[1].task.family == "level1");
  CHECK(level.members[1].task.tolerance == env::tolerance{1e-4, 1e-4});
  CHECK(env::pytorch_of(level.members[1].task).needs.empty());

  CHECK(names_of(found("kernelbench:1-2")).size() == 4);
  CHECK(found("kernelbench:1-2").name == "kernelbench_level1_2");
  const env::suite one = found("kernelbench:1/3");
  CHECK(names_of(one) == words{"level1_3_batched_matrix_multiplication"});
  CHECK(one.name == "kernelbench_level1_problem3");
  // The same task however it is named, and wherever the tree lies.
  CHECK(one.members[0].id == level.members[2].id);
  write_tree("copy");
  options.kernelbench = path("copy");
  CHECK(found("kernelbench:1/3").members[0].id == one.members[0].id);
  options.precision = "fp16";
  const env::suite half = found("kernelbench:1/3");
  CHECK(env::pytorch_of(half.members[0].task).precision == env::torch_precision::fp16);
  CHECK(half.members[0].task.tolerance == env::tolerance{1e-2, 1e-2});
  options.precision = "fp8";
  CHECK(contains(refused("kernelbench:1/3"), "'fp8' is no precision"));
}

TEST_CASE_FIXTURE(sources_fixture, "a module that needs weights says which") {
  const env::suite found = this->found("kernelbench:4");
  REQUIRE(found.members.size() == 1);
  CHECK(found.members[0].task.name == "level4_7_gpt2_bs32_seq256");
  const auto& needs = env::pytorch_of(found.members[0].task).needs;
  REQUIRE(needs.size() == 2);
  CHECK(env::to_text(needs[0]) == "module transformers");
  CHECK(env::to_text(needs[1]) == "weights gpt2");
}

TEST_CASE_FIXTURE(sources_fixture, "a version that lies beside is another task of the same name") {
  const env::suite old = found("kernelbench@v0.1:1");
  CHECK(old.name == "kernelbench_v0_1_level1");
  CHECK(names_of(old) == words{"level1_3_batched_matrix_multiplication"});
  CHECK(old.members[0].id != found("kernelbench:1/3").members[0].id);
  CHECK(contains(refused("kernelbench@v0.2:1"), "no version 'v0.2'"));
  CHECK(contains(refused("kernelbench@../x:1"), "names no tasks of KernelBench"));
}

TEST_CASE_FIXTURE(sources_fixture, "what is not in the tree, or no tree, is said with what to do") {
  CHECK(contains(refused("kernelbench:3"), "has no level 3: it has 1, 2, 4"));
  CHECK(contains(refused("kernelbench:1/2"), "has no problem 2: it has 3, from 1 to 12"));
  for (const char* text :
       {"kernelbench:", "kernelbench:x", "kernelbench:1/", "kernelbench:2-1", "kernelbench:1-",
        "kernelbench:1/3x", "kernelbench:1234567", "kernelbench@:1", "kernelbench@v0.1"})
    CHECK(contains(refused(text), "write kernelbench:1 for a level"));
  options.kernelbench = path("nowhere");
  const auto lost = env::find_tasks("kernelbench:1", options);
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code == base::errc::not_found);
  CHECK(contains(lost.error().message, path("nowhere") + " has no folder level1"));
  CHECK(contains(lost.error().message,
                 "git clone https://github.com/ScalingIntelligence/KernelBench"));
  options.kernelbench.clear();
  CHECK(contains(refused("kernelbench:1"), "none is named: git clone"));
  CHECK(contains(refused("kernelbench:1"), "tasks.kernelbench"));
  setenv("KERNELBENCH", path("tree").c_str(), 1);
  CHECK(refused("kernelbench:1") == "accepted");
  unsetenv("KERNELBENCH");

  options.kernelbench = path("tree");
  write("tree/KernelBench/level2/1_Other.py", test::module_text());
  const std::string twice = refused("kernelbench:2");
  CHECK(contains(twice, "1_Linear_ReLU.py"));
  CHECK(contains(twice, "1_Other.py are both problem 1"));
  write("tree/KernelBench/level1/4_Broken.py", "def get_inputs(): pass\n");
  CHECK(contains(refused("kernelbench:1"),
                 "4_Broken.py: task 'level1_4_broken': the reference has "
                 "no class Model"));
}

TEST_CASE_FIXTURE(sources_fixture, "folders of modules are suites, with and without levels") {
  CHECK(names_of(found(path("tree"))).size() == 5);
  CHECK(found(path("tree") + "/").name == "tree");
  CHECK(names_of(found(path("tree/KernelBench"))) == names_of(found(path("tree"))));
  const env::suite level = found(path("tree/KernelBench/level1"));
  CHECK(level.members[0].id == found("kernelbench:1").members[0].id);

  write("mine/Two Rows.py", test::module_text());
  write("mine/9lives.py", test::module_text("x * 9"));
  write("mine/_helper.py", "nothing\n");
  const env::suite mine = found(path("mine"));
  CHECK(names_of(mine) == words{"task_9lives", "two_rows"});
  CHECK(mine.members[0].task.family == "mine");
  CHECK_FALSE(mine.members[0].place.has_value());
  write("mine/two-rows.py", test::module_text("x * 3"));
  CHECK(contains(refused(path("mine")), "are both task two_rows"));
  // A folder of task files stays one.
  write("suite/suite.yaml", "quern_suite: 1\n");
  write("suite/helper.py", test::module_text());
  CHECK_FALSE(env::names_foreign_tasks(path("suite"), options));
  CHECK(contains(refused(path("suite")), "holds no *.task.yaml file"));
  write("files/a.task.yaml", "");
  write("files/helper.py", "");
  CHECK_FALSE(env::names_foreign_tasks(path("files"), options));
}

TEST_CASE_FIXTURE(sources_fixture, "a file is a task, also without get_init_inputs") {
  std::string text = test::module_text();
  text.resize(text.find("def get_init_inputs"));
  write("ref.py", "\xEF\xBB\xBF" + text + "\r\n\r\n");
  const auto task = env::find_task(path("ref.py"), options);
  REQUIRE_MESSAGE(task.has_value(), (task ? "" : task.error().message));
  CHECK(task->task.name == "ref");
  REQUIRE(task->of_suite.has_value());
  CHECK(task->of_suite->members.empty());
  CHECK(task->of_suite->policy == env::suite_policy());
  // As in its tree.
  const auto same =
      env::find_task(path("tree/KernelBench/level1/3_Batched_matrix_multiplication.py"), options);
  CHECK(same.value().task == found("kernelbench:1/3").members[0].task);

  write("long.py", test::module_text() + "#" + std::string(70'000, 'x') + "\n");
  CHECK(contains(refused(path("long.py")), "at most 65536 are allowed"));
  write("huge.py", std::string(300'000, '#'));
  CHECK(contains(refused(path("huge.py")), path("huge.py")));
  write("latin.py", test::module_text() + "# \xE9\n");
  CHECK(contains(refused(path("latin.py")), "the byte 0xe9 in line 21"));
  write("empty.py", "\n\n");
  CHECK(contains(refused(path("empty.py")), "the reference is empty"));
  CHECK(env::find_tasks(path("none.py"), options).error().code == base::errc::not_found);
  const std::string longest(150, 'a');
  write(longest + ".py", test::module_text());
  CHECK(env::find_task(path(longest + ".py"), options).value().task.name == std::string(100, 'a'));
}

TEST_CASE_FIXTURE(sources_fixture, "one task of several is chosen by its name") {
  const auto chosen = env::find_task("kernelbench:1#level1_12_relu", options);
  REQUIRE_MESSAGE(chosen.has_value(), (chosen ? "" : chosen.error().message));
  CHECK(chosen->task.name == "level1_12_relu");
  CHECK(found("kernelbench:1#level1_12_relu").members.size() == 1);
  const auto several = env::find_task("kernelbench:1", options);
  REQUIRE_FALSE(several.has_value());
  CHECK(contains(several.error().message,
                 "names 3 tasks, and one is needed: add its name, such as "
                 "kernelbench:1#level1_12_relu"));
  CHECK(contains(refused("kernelbench:1#level1_12_rely"), "did you mean 'level1_12_relu'?"));
}

TEST_CASE_FIXTURE(sources_fixture, "task files and suites are read as before") {
  const std::string text = env::module_lane.new_task("mine").value();
  write("mine.task.yaml", text);
  const auto file = env::find_task(path("mine.task.yaml"), options);
  REQUIRE(file.has_value());
  CHECK(file->task == env::parse_task(text).value());
  CHECK_FALSE(file->of_suite.has_value());
  options.precision = "fp16";
  CHECK(contains(env::find_task(path("mine.task.yaml"), options).error().message,
                 "leave the precision out"));
  options.precision.clear();
  const std::string shipped = (test::source_dir() / "env/suites/cpu_quick").string();
  CHECK(found(shipped).members.size() == env::load_suite(shipped).value().members.size());
  const auto none = env::find_tasks(path("nowhere"), options);
  CHECK(none.error().message == env::load_suite(path("nowhere")).error().message);
  CHECK(contains(env::foreign_forms(), "; or kernelbench:LEVEL"));
  // The lane that is asked for comes first; where it does not know the form, another is found.
  CHECK(env::names_foreign_tasks("kernelbench:1", {env::find_lane("cpp"), {}, {}}));
}
