// What a run was begun with, and what of it is something else when it is to go on.
#include "actors/config/begun_with.hpp"

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
namespace fs = std::filesystem;

namespace {

using names = std::vector<std::string>;

base::hash128 hash_of(std::uint64_t number) {
  return {number, 0};
}

run_inputs some_inputs() {
  run_inputs inputs;
  inputs.model = {{"config.json", 10, hash_of(1)}, {"model.safetensors", 900, hash_of(2)}};
  inputs.tasks = {{"a@1", false}, {"b@2", false}, {"c@3", true}};
  inputs.recorded = hash_of(3);
  return inputs;
}

/// A run on the demo policy and a suite, both copied to where they can be changed.
struct begun_run {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  run_config config;

  begun_run() {
    fs::copy(test::source_dir() / "policy/demo", folder.path() / "model");
    fs::copy(test::source_dir() / "env/suites/cpu_quick", folder.path() / "suite");
    config.policy.model = (folder.path() / "model").string();
    config.tasks.source = "suite";
    config.tasks.suite = (folder.path() / "suite").string();
  }
  fs::path run() const { return folder.path() / "run"; }
  base::json meta() const {
    const auto inputs = inputs_of(config, run(), task_book::make(config).value());
    REQUIRE(inputs);
    return {{begun_with_key, to_json(*inputs)}};
  }
  base::status check(const base::json& begun) const {
    return check_begun_with(config, run(), begun, task_book::make(config).value());
  }
  void refused_with(const base::json& begun, std::initializer_list<std::string> parts) const {
    const base::status checked = check(begun);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == base::errc::invalid_argument);
    CAPTURE(checked.error().message);
    for (const std::string& part : parts)
      CHECK(test::contains(checked.error().message, part));
  }
};

void add_to(const fs::path& file, std::string_view text) {
  REQUIRE(base::write_file_atomic(file, base::read_file(file).value() + std::string(text)));
}

}  // namespace

TEST_CASE("inputs alike have no change, and outlive meta.json") {
  const run_inputs inputs = some_inputs();
  CHECK_FALSE(compare(inputs, inputs).any());
  const auto read = inputs_in({{begun_with_key, to_json(inputs)}});
  REQUIRE(read);
  REQUIRE(read->has_value());
  CHECK((*read)->model == inputs.model);
  CHECK((*read)->tasks == inputs.tasks);
  CHECK((*read)->recorded == inputs.recorded);
  const auto nothing = inputs_in({{begun_with_key, to_json(run_inputs{})}});
  REQUIRE(nothing);
  REQUIRE(nothing->has_value());
  CHECK_FALSE((*nothing)->model);
  CHECK_FALSE((*nothing)->tasks);
  CHECK_FALSE((*nothing)->recorded);
}

TEST_CASE("what differs, is missing, is new or was moved between the halves is told by its name") {
  const run_inputs begun = some_inputs();
  run_inputs now = begun;
  now.model = {{"chat_template.jinja", 5, hash_of(9)}, {"model.safetensors", 900, hash_of(8)}};
  changed_inputs changed = compare(begun, now);
  CHECK(changed.any());
  CHECK(changed.model.differ == names{"model.safetensors"});
  CHECK(changed.model.missing == names{"config.json"});
  CHECK(changed.model.added == names{"chat_template.jinja"});
  CHECK_FALSE(changed.tasks.any());
  now = begun;
  now.model->back().size = 901;
  CHECK(compare(begun, now).model.differ == names{"model.safetensors"});
  now = begun;
  now.tasks = {{"a@7", false}, {"c@3", false}, {"d@4", true}};
  changed = compare(begun, now);
  CHECK_FALSE(changed.model.any());
  CHECK(changed.tasks.differ == names{"a"});
  CHECK(changed.tasks.missing == names{"b"});
  CHECK(changed.tasks.added == names{"d"});
  CHECK(changed.moved == names{"c"});
  now.tasks = {{"c@3", false}, {"b@2", false}, {"a@1", false}};
  CHECK(compare(begun, now).moved == names{"c"});
  CHECK(compare(begun, now).any());
  now = begun;
  now.recorded = hash_of(4);
  CHECK(compare(begun, now).recorded);
  CHECK(compare(begun, now).any());
}

TEST_CASE("what one side does not have is not compared") {
  CHECK_FALSE(compare(some_inputs(), {}).any());
  CHECK_FALSE(compare({}, some_inputs()).any());
}

TEST_CASE("a run that kept no inputs may go on; damaged ones are an error that names the key") {
  const auto none = inputs_in({{"quern_run", 1}});
  REQUIRE(none);
  CHECK_FALSE(none->has_value());
  for (const char* text :
       {R"(5)", R"({"model": 5})", R"({"model": [{"file": "a", "bytes": 1, "digest": "x"}]})",
        R"({"model": [5]})", R"({"tasks": []})", R"({"tasks": {"train": []}})",
        R"({"tasks": {"train": [], "held_out": [5]}})", R"({"recorded": 5})"}) {
    CAPTURE(text);
    const auto damaged = inputs_in({{begun_with_key, base::parse_json(text).value()}});
    REQUIRE_FALSE(damaged);
    CHECK(damaged.error().code == base::errc::corrupt);
    CHECK(test::contains(damaged.error().message, "begun_with"));
  }
}

TEST_CASE("a model that was changed is refused; one that was moved is the same") {
  begun_run f;
  const base::json begun = f.meta();
  CHECK(f.check(begun));
  CHECK(f.check(base::json{{"quern_run", 1}}));
  fs::rename(f.folder.path() / "model", f.folder.path() / "elsewhere");
  f.config.policy.model = (f.folder.path() / "elsewhere").string();
  CHECK(f.check(begun));
  add_to(f.folder.path() / "elsewhere/README.md", "not read");
  CHECK(f.check(begun));
  add_to(f.folder.path() / "elsewhere/config.json", "\n");
  f.refused_with(begun,
                 {"policy.model is " + f.config.policy.model, "config.json differs",
                  "put its files back", "begin a new run", (f.run() / "config.yaml").string()});
  // Who only reads the run needs no model.
  const task_book tasks = task_book::make(f.config).value();
  fs::remove_all(f.folder.path() / "elsewhere");
  CHECK(check_tasks_begun_with(f.config, f.run(), begun, tasks));
  CHECK_FALSE(check_begun_with(f.config, f.run(), begun, tasks));
}

TEST_CASE("tasks that were changed are refused by name; a suite that was moved is the same") {
  begun_run f;
  const base::json begun = f.meta();
  fs::rename(f.folder.path() / "suite", f.folder.path() / "elsewhere");
  f.config.tasks.suite = (f.folder.path() / "elsewhere").string();
  CHECK(f.check(begun));
  const fs::path task = f.folder.path() / "elsewhere/abs_smooth_shift.task.yaml";
  // What is no part of a task is none of its content.
  add_to(task, "# a comment\n");
  CHECK(f.check(begun));
  fs::remove(task);
  f.refused_with(begun, {"tasks.suite is " + f.config.tasks.suite, "abs_smooth_shift is missing",
                         "put them back", "begin a new run"});
  CHECK_FALSE(check_tasks_begun_with(f.config, f.run(), begun, task_book::make(f.config).value()));
}

TEST_CASE("generated tasks that a build draws otherwise are refused by name") {
  begun_run f;
  f.config.tasks.source = "generated";
  f.config.tasks.count = 3;
  f.config.tasks.held_out_count = 2;
  const base::json begun = f.meta();
  CHECK(f.check(begun));
  // A build with another grammar would make the same of the same keys as this one of another seed.
  f.config.tasks.seed += 1;
  const std::string name(env::task_name_of(inputs_in(begun).value()->tasks.value().front().id));
  f.refused_with(begun, {"other tasks are drawn here", name, "missing", "are new",
                         "go on with the build and on the host", (f.run() / "meta.json").string(),
                         "begin a new run"});
  CHECK_FALSE(check_tasks_begun_with(f.config, f.run(), begun, task_book::make(f.config).value()));
  // A run of an earlier build kept no list of them.
  base::json without = begun;
  without[begun_with_key].erase("tasks");
  CHECK(f.check(without));
  // In stage sft they are those of its corpus.
  f.config.stage = "sft";
  CHECK_FALSE(inputs_of(f.config, f.run(), task_book::make(f.config).value()).value().tasks);
}

TEST_CASE("a message names three of a kind and counts the others") {
  begun_run f;
  changed_inputs changed;
  changed.tasks.differ = {"a", "b", "c", "d", "e"};
  changed.tasks.added = {"f", "g"};
  const base::status checked = check_inputs(f.config, f.run(), changed);
  REQUIRE_FALSE(checked);
  CHECK(test::contains(checked.error().message, "a, b, c and 2 more differ; f, g are new;"));
  CHECK(check_inputs(f.config, f.run(), {}));
}

TEST_CASE("recorded completions: the run's own copy counts, else the file that is named") {
  begun_run f;
  const fs::path named = f.folder.path() / "named.jsonl", kept = f.run() / "recorded.jsonl";
  REQUIRE(base::write_file_atomic(named, "one\n"));
  f.config.policy.engine = "recorded";
  f.config.policy.recorded = named.string();
  const base::json begun = f.meta();
  REQUIRE(base::make_folders(f.run()));
  fs::copy(named, kept);
  add_to(named, "two\n");
  CHECK(f.check(begun));
  fs::remove(kept);
  f.refused_with(begun, {"policy.recorded: " + named.string(), "put it back"});
}

TEST_CASE(
    "stage sft begins with fresh weights, and generated tasks follow from the configuration") {
  begun_run f;
  f.config.stage = "sft";
  f.config.tasks.source = "generated";
  f.config.tasks.count = 2;
  f.config.tasks.held_out_count = 0;
  const auto inputs = inputs_of(f.config, f.run(), task_book::make(f.config).value());
  REQUIRE(inputs);
  CHECK_FALSE(inputs->model);
  CHECK_FALSE(inputs->tasks);
  CHECK_FALSE(inputs->recorded);
}
