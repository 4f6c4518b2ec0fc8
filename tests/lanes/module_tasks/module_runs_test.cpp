// Runs whose suite are tasks of others.
#include <cstdlib>

#include "actors/config/begun_with.hpp"
#include "actors/config/config_file.hpp"
#include "actors/config/reference_check.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "lanes/module_tasks/module_lane.hpp"
#include "lanes/module_tasks/module_texts.hpp"

using namespace quern;
using test::contains;

namespace {

struct runs_fixture : test::module_folder {
  actors::run_config config;
  runs_fixture() {
    unsetenv("KERNELBENCH");
    write_tree();
    config.env.lane = "modules";
    config.tasks.source = "suite";
    config.tasks.suite = "kernelbench:1";
    config.tasks.kernelbench = path("tree");
  }
};

}  // namespace

TEST_CASE_FIXTURE(runs_fixture, "a run takes a level of KernelBench as its suite") {
  const auto book = actors::task_book::make(config);
  REQUIRE_MESSAGE(book.has_value(), (book ? "" : book.error().message));
  REQUIRE(book->tasks().size() == 3);
  CHECK(book->rules().recheck_above_e2 == env::module_lane.usual_recheck_above_e2);
  CHECK(actors::check_lane(config, *book).has_value());
  for (const actors::book_task& one : book->tasks())
    CHECK_FALSE(one.held_out);
  CHECK(actors::check_references(config, *book, nullptr).has_value());

  config.tasks.suite = path("tree/KernelBench/level2");
  CHECK(actors::task_book::make(config).value().tasks().size() == 1);
  config.tasks.suite = "kernelbench:3";
  CHECK(contains(actors::task_book::make(config).error().message, "has no level 3"));
  // Tasks of another lane than the run's.
  config.tasks.suite = "kernelbench:1";
  config.env.lane = "cpp";
  CHECK(
      contains(actors::check_lane(config, actors::task_book::make(config).value()).error().message,
               "is of lane modules, env.lane is cpp"));
}

TEST_CASE_FIXTURE(runs_fixture,
                  "tasks of a tree that changed are refused with the key of the tree") {
  const auto begun = [&] {
    actors::run_inputs inputs;
    auto& known = inputs.tasks.emplace();
    const auto book = actors::task_book::make(config).value();
    for (const actors::book_task& one : book.tasks())
      known.push_back({one.id, one.held_out});
    return base::json{{actors::begun_with_key, actors::to_json(inputs)}};
  };
  const auto told = [&](const base::json& meta) {
    const auto checked = actors::check_tasks_begun_with(config, path("run"), meta,
                                                        actors::task_book::make(config).value());
    return checked ? std::string() : checked.error().message;
  };
  config.tasks.suite = "kernelbench:2";
  base::json before = begun();
  CHECK(told(before).empty());
  write("tree/KernelBench/level2/1_Linear_ReLU.py", test::module_text("x.relu() + 2"));
  CHECK(contains(told(before), "tasks.suite is kernelbench:2 (tasks.kernelbench: " + path("tree")));
  CHECK(contains(told(before), "as tasks.kernelbench in"));
  // A path of its own has no such key.
  config.tasks.suite = path("tree/KernelBench/level2");
  before = begun();
  write("tree/KernelBench/level2/1_Linear_ReLU.py", test::module_text("x.relu() + 3"));
  CHECK(contains(told(before), "as tasks.suite in"));
  CHECK_FALSE(contains(told(before), "(tasks.kernelbench"));
}

TEST_CASE_FIXTURE(runs_fixture, "the key for the tree is read, made absolute, and needs a suite") {
  const std::string text =
      "quern_config: 2\nenv: {lane: modules}\ntasks: {source: suite, suite: "
      "'kernelbench:1', kernelbench: " +
      path("tree") + "}\n";
  auto loaded = actors::load_config_text(text, "a.yaml", {});
  REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  CHECK(loaded->tasks.kernelbench == path("tree"));
  loaded->tasks.kernelbench = path("tree") + "/../tree/KernelBench";
  actors::make_paths_absolute(*loaded);
  CHECK(loaded->tasks.kernelbench == path("tree/KernelBench"));
  CHECK(loaded->tasks.suite == "kernelbench:1");
  const auto unread = actors::load_config_text(
      "quern_config: 2\ntasks: {kernelbench: " + path("tree") + "}\n", "a.yaml", {});
  REQUIRE_FALSE(unread.has_value());
  CHECK(contains(unread.error().message, "tasks.kernelbench is '"));
}
