// Suites: reading, splits, defaults, refusals; the skeleton of a new task.
#include "env/task/suite.hpp"

#include <string>

#include "base/file.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/new_task.hpp"
#include "support/tensor_task.hpp"
#include "support/test.hpp"

using namespace quern;
using test::contains;

namespace {

/// A folder with tasks made from the skeleton.
class suite_folder {
 public:
  suite_folder() : folder_(base::temp_folder::make().value()) {}
  const std::filesystem::path& path() const { return folder_.path(); }

  void header(const std::string& text) { write("suite.yaml", text); }

  void add(std::string_view name, std::string_view family, std::string_view reference,
           const env::lane& where = env::cpp_lane) {
    env::task subject = env::parse_task(where.new_task(name).value()).value();
    subject.family = family;
    subject.reference = reference;
    write(std::string(name) + ".task.yaml", env::to_yaml(subject));
  }

  void write(const std::string& name, const std::string& text) {
    REQUIRE(base::write_file_atomic(path() / name, text).has_value());
  }

  std::string error() const {
    const auto loaded = env::load_suite(path());
    return loaded ? "accepted" : loaded.error().message;
  }

 private:
  base::temp_folder folder_;
};

constexpr std::string_view soft = "def forward(x):\n    return torch.softmax(x, -1)\n";
constexpr std::string_view tanh_text = "def forward(x):\n    return torch.tanh(x)\n";

void fill(suite_folder& folder) {
  folder.add("b_soft", "softmax", soft);
  folder.add("a_soft", "softmax", soft);
  folder.add("c_tanh", "pointwise", tanh_text);
  folder.write("README.md", "not a task");
}

std::string held_out_names(const suite_folder& folder) {
  const auto loaded = env::load_suite(folder.path());
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  std::string text;
  for (const auto& member : loaded->members) {
    if (member.held_out) text += member.task.name + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("a suite is read in order of names, with defaults") {
  suite_folder folder;
  fill(folder);
  folder.header("quern_suite: 1\n");
  const auto loaded = env::load_suite(folder.path());
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  REQUIRE(loaded->members.size() == 3);
  CHECK(loaded->members[0].task.name == "a_soft");
  CHECK(loaded->members[2].task.name == "c_tanh");
  CHECK(loaded->members[1].id == env::task_id(loaded->members[1].task));
  CHECK(loaded->name == folder.path().filename().string());
  CHECK(loaded->recheck_above_e2 == 3000);
  CHECK(loaded->policy == env::suite_policy{});
  CHECK(held_out_names(folder).empty());
  // A trailing slash or a dot names the same folder.
  CHECK(env::load_suite(folder.path().string() + "/")->name == loaded->name);
  CHECK(env::load_suite(folder.path() / ".")->name == loaded->name);
}

TEST_CASE("splits hold out by family, task and composition") {
  suite_folder folder;
  fill(folder);
  folder.header(
      "quern_suite: 1\nsplit: {by: family, held_out: [softmax]}\nrecheck_above: 7.5\npolicy: "
      "{graphs: true, by_evidence: true}\n");
  CHECK(held_out_names(folder) == "a_soft b_soft ");
  const auto loaded = env::load_suite(folder.path()).value();
  CHECK(loaded.recheck_above_e2 == 750);
  CHECK(loaded.policy.graphs);
  CHECK(loaded.policy.by_evidence);
  CHECK_FALSE(loaded.policy.library_calls);
  folder.header("quern_suite: 1\nsplit: {by: task, held_out: [c_tanh]}\n");
  CHECK(held_out_names(folder) == "c_tanh ");
  folder.header("quern_suite: 1\nsplit: {by: composition, held_out: [a_soft]}\n");
  CHECK(held_out_names(folder) == "a_soft b_soft ");
  const std::string composition = env::composition_of(loaded.members[2].task);
  folder.header("quern_suite: 1\nsplit: {by: composition, held_out: [" + composition + "]}\n");
  CHECK(held_out_names(folder) == "c_tanh ");
}

TEST_CASE("lane cuda has its own default for re-measuring") {
  suite_folder folder;
  folder.add("g", "softmax", soft, env::cuda_lane);
  folder.header("quern_suite: 1\n");
  CHECK(env::load_suite(folder.path())->recheck_above_e2 == 300);
}

TEST_CASE("what is wrong with a suite is said, with the file") {
  suite_folder folder;
  CHECK(contains(folder.error(), "suite.yaml"));
  folder.header("quern_suite: 1\n");
  CHECK(contains(folder.error(), "quern tasks new"));
  fill(folder);
  folder.header("quern_suite: 3\n");
  CHECK(contains(folder.error(), "reads version 1"));
  folder.header("quern_suite: 1\nrecheck_abov: 3\n");
  CHECK(contains(folder.error(), "did you mean 'recheck_above'"));
  folder.header("quern_suite: 1\nrecheck_above: 0.5\n");
  CHECK(contains(folder.error(), "from 1 to"));
  folder.header("quern_suite: 1\nsplit: {by: familie, held_out: []}\n");
  CHECK(contains(folder.error(), "did you mean 'family'"));
  folder.header("quern_suite: 1\nsplit: {by: task, held_out: [c_tan]}\n");
  CHECK(contains(folder.error(), "did you mean 'c_tanh'"));
  folder.header("quern_suite: 1\npolicy: {graphs: 1}\n");
  CHECK(contains(folder.error(), "true or false"));
  folder.header("quern_suite: 1\n");
  CHECK(folder.error() == "accepted");
  folder.add("z", "softmax", soft, env::cuda_lane);
  CHECK(contains(folder.error(), "one lane a suite"));
  std::filesystem::rename(folder.path() / "z.task.yaml", folder.path() / "y.task.yaml");
  CHECK(contains(folder.error(), "name the file z.task.yaml"));
  folder.write("y.task.yaml", "quern_task: 1\n");
  CHECK(contains(folder.error(), "y.task.yaml"));
}

TEST_CASE("the skeleton of a new task is a valid task with a comment on every key") {
  for (const env::lane* lane : {&env::cpp_lane, &env::cuda_lane}) {
    const env::lane& where = *lane;
    const auto text = where.new_task("my_task");
    REQUIRE_MESSAGE(text.has_value(), text.error().message);
    const auto parsed = env::parse_task(*text);
    REQUIRE(parsed.has_value());
    CHECK(parsed->name == "my_task");
    CHECK(parsed->lane == &where);
    CHECK(env::tensors_of(*parsed).plain.empty() == (lane == &env::cuda_lane));
    CHECK(std::count(text->begin(), text->end(), '#') >= 12);
    CHECK(text->find('@') == std::string::npos);
  }
  const auto bad = env::cpp_lane.new_task("My task");
  REQUIRE_FALSE(bad.has_value());
  CHECK(contains(bad.error().message, "no task name"));
}

TEST_CASE("what a suite allows as text, and switches turned on and off") {
  env::suite_policy policy;
  CHECK(env::to_text(policy) == "host_entry");
  policy.graphs = true;
  policy.library_calls = true;
  CHECK(env::to_text(policy) == "library_calls,graphs,host_entry");
  CHECK(env::parse_suite_policy(env::to_text(policy)) == policy);
  CHECK(env::with_switches(policy, "graphs, host_entry", false).value() ==
        env::parse_suite_policy("library_calls").value());
  CHECK(env::with_switches(policy, "", false).value() == policy);
  policy.by_evidence = true;
  CHECK(env::to_text(policy) == "library_calls,graphs,host_entry,by_evidence");
  CHECK(env::parse_suite_policy(env::to_text(policy)) == policy);
  const auto nothing = env::parse_suite_policy("none");
  REQUIRE(nothing.has_value());
  CHECK_FALSE(nothing->host_entry);
  CHECK(env::to_text(*nothing) == "none");
  const auto unknown = env::parse_suite_policy("graphs,host_entri");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(contains(unknown.error().message, "did you mean 'host_entry'"));
  CHECK(contains(unknown.error().message, "library_calls, lower_precision, graphs, host_entry"));
}

TEST_CASE("a suite's baseline: known, possible for its tasks, the task's own by default") {
  suite_folder folder;
  fill(folder);
  folder.header("quern_suite: 1\n");
  CHECK(env::load_suite(folder.path()).value().baseline == env::baseline_choice::of_task);
  folder.header("quern_suite: 1\nbaseline: plain\n");
  CHECK(env::load_suite(folder.path()).value().baseline == env::baseline_choice::plain);
  folder.header("quern_suite: 1\nbaseline: eager\n");
  CHECK(contains(folder.error(), "which is 'plain' for a_soft"));
  folder.header("quern_suite: 1\nbaseline: egaer\n");
  CHECK(contains(folder.error(), "did you mean 'eager'"));
  folder.header("quern_suite: 1\nbaseline: plain\n");
  env::task bare = env::load_task(folder.path() / "a_soft.task.yaml").value();
  test::edit_tensors(bare).plain = "";
  bare.baseline = env::baseline_kind::reference;
  folder.write("a_soft.task.yaml", env::to_yaml(bare));
  CHECK(contains(folder.error(), "task a_soft has no plain kernel"));
  folder.header("quern_suite: 1\nbaseline: graph\n");
  CHECK(contains(
      folder.error(),
      "have the baseline of their file, which is 'eager' for a_soft: say task; lane cuda, lane "
      "pytorch on a GPU has it"));
  suite_folder device;
  device.add("g", "softmax", soft, env::cuda_lane);
  device.header("quern_suite: 1\nbaseline: eager\n");
  CHECK(env::load_suite(device.path()).value().baseline == env::baseline_choice::eager);
}

TEST_CASE("the suite of a task file is the one beside it") {
  suite_folder folder;
  fill(folder);
  const auto task = folder.path() / "a_soft.task.yaml";
  auto none = env::suite_beside(task);
  REQUIRE(none.has_value());
  CHECK_FALSE(none->has_value());
  folder.header("quern_suite: 1\nrecheck_above: 7\npolicy: {library_calls: true}\n");
  const auto found = env::suite_beside(task);
  REQUIRE(found.has_value());
  REQUIRE(found->has_value());
  CHECK((*found)->policy.library_calls);
  CHECK((*found)->recheck_above_e2 == 700);
  folder.header("quern_suite: 1\npolicy: {library_cals: true}\n");
  const auto broken = env::suite_beside(task);
  REQUIRE_FALSE(broken.has_value());
  CHECK(contains(broken.error().message, "did you mean 'library_calls'"));
}

TEST_CASE("a task file is a suite of one under the rules beside it, with nothing held out") {
  suite_folder folder;
  fill(folder);
  const auto task = folder.path() / "a_soft.task.yaml";
  const auto alone = env::suite_of_file(task);
  REQUIRE(alone.has_value());
  REQUIRE(alone->members.size() == 1);
  CHECK(alone->members.front().task.name == "a_soft");
  CHECK(alone->members.front().id == env::task_id(alone->members.front().task));
  CHECK(alone->policy.graphs);
  CHECK(alone->recheck_above_e2 == 0);
  folder.header(
      "quern_suite: 1\nrecheck_above: 7\npolicy: {library_calls: true}\n"
      "split: {by: task, held_out: [a_soft]}\n");
  const auto ruled = env::suite_of_file(task);
  REQUIRE(ruled.has_value());
  CHECK(ruled->policy.library_calls);
  CHECK_FALSE(ruled->policy.graphs);
  CHECK(ruled->recheck_above_e2 == 700);
  CHECK_FALSE(ruled->members.front().held_out);
  // The whole suite holds it out.
  const auto whole = env::load_suite(folder.path());
  REQUIRE(whole.has_value());
  CHECK(whole->members.front().held_out);
  CHECK_FALSE(env::suite_of_file(folder.path() / "nothing.task.yaml").has_value());
}
