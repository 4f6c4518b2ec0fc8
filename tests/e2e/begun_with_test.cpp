// A resume notices that the policy or the tasks are not those that the run was begun with.
#include "base/file.hpp"
#include "base/json.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

struct begun_run {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path run = folder.path() / "run", model = folder.path() / "model",
           suite = folder.path() / "suite";
  int commands = 0;

  begun_run() {
    fs::copy(source_dir() / "policy/demo", model);
    fs::copy(source_dir() / "env/suites/cpu_quick", suite);
  }
  finished go(std::vector<std::string> argv) {
    return run_to_end(std::move(argv), folder.path() / ("log" + std::to_string(++commands)));
  }
  finished resume() {
    return go({program("quern"), "resume", run.string(), "--set", "learner.steps=2"});
  }
  void refused_with(const std::vector<std::string>& parts) {
    const finished refused = resume();
    CAPTURE(refused.output);
    CHECK(refused.code == 2);
    for (const std::string& part : parts)
      CHECK(contains(refused.output, part));
    CHECK(version_of(run) == 1);
  }
};

}  // namespace

TEST_CASE("a resume refuses another model and other tasks, by name, and goes on with the same") {
  begun_run f;
  const finished trained =
      f.go(train_command(f.run, 1,
                         {"observe.evaluation_set=false", "env.protocol=cost_model/1",
                          "tasks.source=suite", "tasks.suite=" + f.suite.string(),
                          "policy.model=" + f.model.string(), "storage.checkpoint_every_steps=1"}));
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);

  // Another export under the same name.
  const fs::path weights = f.model / "model.safetensors";
  const std::string first = base::read_file(weights).value();
  std::string other = first;
  other.back() = static_cast<char>(other.back() ^ 1);
  REQUIRE(base::write_file_atomic(weights, other));
  f.refused_with({"policy.model is " + f.model.string(), "model.safetensors differs",
                  "put its files back", "begin a new run"});
  REQUIRE(base::write_file_atomic(weights, first));

  // One task is gone, and another one may differ more from its reference.
  const fs::path gone = f.suite / "abs_smooth_shift.task.yaml",
                 edited = f.suite / "relu_centre_square.task.yaml";
  const std::string gone_text = base::read_file(gone).value(),
                    edited_text = base::read_file(edited).value();
  std::string edit = edited_text;
  const std::string limit = "rtol: 0.0002";
  const std::size_t at = edit.find(limit);
  REQUIRE(at != std::string::npos);
  edit.replace(at, limit.size(), "rtol: 0.0004");
  fs::remove(gone);
  REQUIRE(base::write_file_atomic(edited, edit));
  f.refused_with({"tasks.suite is " + f.suite.string(), "relu_centre_square differs",
                  "abs_smooth_shift is missing", "put them back", "begin a new run"});
  const finished told = f.go({program("quern"), "report", f.run.string()});
  CAPTURE(told.output);
  CHECK(told.code == 0);
  CHECK(contains(told.output, "abs_smooth_shift is missing"));
  REQUIRE(base::write_file_atomic(gone, gone_text));
  REQUIRE(base::write_file_atomic(edited, edited_text));

  // A folder that was moved has the same contents.
  const fs::path moved = f.folder.path() / "moved";
  fs::rename(f.model, moved);
  std::string config = base::read_file(f.run / "config.yaml").value();
  const std::size_t place = config.find(f.model.string());
  REQUIRE(place != std::string::npos);
  config.replace(place, f.model.string().size(), moved.string());
  REQUIRE(base::write_file_atomic(f.run / "config.yaml", config));
  const finished resumed = f.resume();
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(version_of(f.run) == 2);
  check_law(f.run);
}
