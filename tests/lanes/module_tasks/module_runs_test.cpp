// Runs whose suite are tasks of others.
#include <cstdlib>

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
