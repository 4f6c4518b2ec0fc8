// The evaluation set of a run: what happens to it when its generator dies and when a person
// interrupts it.
#include <signal.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

std::string log_of(const fs::path& file) {
  return base::read_file(file).value_or("");
}

bool says(const fs::path& log, const char* what) {
  return log_of(log).find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("an evaluation set outlives its generator, can be interrupted, and is made by resume") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run", log = folder->path() / "log",
                 more = folder->path() / "more";
  auto control = base::subprocess::start(
      {.argv = train_command(run, 1,
                             {"observe.evaluation_set_train=16",
                              "observe.evaluation_set_held_out=8", "env.protocol=cost_model/1"}),
       .log = log});
  REQUIRE(control);
  REQUIRE(wait_until(300_s, [&] { return says(log, "evaluation set: ") || control->poll(); }));
  REQUIRE(version_of(run) == 1);
  CHECK(wait_until(60_s, [&] {
    return run_to_end({program("quern"), "status", run.string()}, folder->path() / "status")
               .output.find("prompts answered by the") != std::string::npos;
  }));
  control->send_signal(SIGINT);
  const auto paused = control->wait(60_s);
  CAPTURE(log_of(log));
  REQUIRE(paused);
  CHECK(paused->code == 3);
  CHECK_FALSE(fs::exists(run / "evaluation_set.json"));

  auto again =
      base::subprocess::start({.argv = {program("quern"), "resume", run.string()}, .log = more});
  REQUIRE(again);
  const std::vector<std::string> generator = {"quern-torch", "generator", run.string()};
  REQUIRE(wait_until(120_s, [&] { return says(more, "of 24 prompts answered") || again->poll(); }));
  std::vector<pid_t> alive;
  REQUIRE(wait_until(60_s, [&] {
    alive = find_processes(generator);
    return alive.size() == 1;
  }));
  REQUIRE(::kill(alive.front(), SIGKILL) == 0);
  const auto end = again->wait(300_s);
  CAPTURE(log_of(more));
  REQUIRE_MESSAGE(end, "an evaluation set whose generator was killed does not end");
  CHECK(end->code == 0);
  CHECK(says(more, "starting it again"));
  const auto evaluation_set = base::parse_json(log_of(run / "evaluation_set.json"));
  REQUIRE(evaluation_set);
  CHECK((*evaluation_set)["items"].size() == 24);
}

TEST_CASE(
    "a signal in the last step pauses before the evaluation set, which is all that a resume does") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run", log = folder.path() / "log";
  auto control = base::subprocess::start(
      {.argv = train_command(run, 2,
                             {"observe.evaluation_set_train=4", "observe.evaluation_set_held_out=2",
                              "env.protocol=cost_model/1"}),
       .log = log});
  REQUIRE(control);
  REQUIRE(wait_until(300_s, [&] { return says(log, "step 2/2") || control->poll(); }));
  control->send_signal(SIGINT);
  const auto end = control->wait(60_s);
  CAPTURE(log_of(log));
  REQUIRE(end);
  CHECK(end->code == 3);
  CHECK(says(log, "paused: quern resume"));
  CHECK_FALSE(fs::exists(run / "evaluation_set.json"));
  const finished resumed =
      run_to_end({program("quern"), "resume", run.string()}, folder.path() / "more");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK_FALSE(contains(resumed.output, "\nstep "));
  // Each line of the first half has the time that is left.
  CHECK(contains(resumed.output, "of 6 prompts answered by the first weights, about "));
  CHECK(fs::exists(run / "evaluation_set.json"));
  check_law(run);
}
