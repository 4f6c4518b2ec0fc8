// A run whose weights go over links: a generator that is killed has a link of its own again and the
// newest weights, and a learner that is killed takes all links with it.
#include <signal.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

std::size_t occurrences(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("weights over links, from two learner ranks: a generator dies, then rank 0") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  // Enough that steps are left when rank 0 is hit: the window may hold the samples of some.
  constexpr std::int64_t steps = 24;
  // The incarnation begins with version 0, so that a new generator is behind by more than a sample
  // may be old: without the newest weights it could not go on.
  auto control = base::subprocess::start(
      {.argv =
           train_command(run, steps,
                         {"actors.weights=link", "learner.ranks=2", "observe.evaluation_set=false",
                          "env.protocol=cost_model/1", "storage.checkpoint_every_steps=1"}),
       .log = folder.path() / "log"});
  REQUIRE(control);
  const auto over = [&] { return control->poll().has_value(); };
  const auto kill_at = [&](std::int64_t version, std::vector<std::string> words) {
    REQUIRE(wait_until(300_s, [&] { return over() || version_of(run) >= version; }));
    REQUIRE_FALSE(over());
    words.push_back(run.string());
    const auto found = find_processes(words);
    REQUIRE(found.size() == 1);
    REQUIRE(::kill(found.front(), SIGKILL) == 0);
  };
  const auto log_of = [&](const char* role) {
    return base::read_file(run / "logs" / role).value_or("");
  };
  constexpr const char* opened = "a link for weights is open at";
  kill_at(3, {"quern-torch", "generator"});
  kill_at(6, {"quern-torch", "learner", std::string("--rank") + '\0' + "0"});
  const auto end = control->wait(400_s);
  const std::string said = base::read_file(folder.path() / "log").value_or("");
  CAPTURE(said);
  CAPTURE(log_of("learner.log"));
  CAPTURE(log_of("generator.log"));
  REQUIRE(end);
  CHECK(end->code == 0);
  check_law(run);
  CHECK(version_of(run) == steps);
  CHECK(occurrences(log_of("learner.log"), opened) >= 3);
  CHECK(contains(said, "a generator is gone"));
  CHECK(contains(said, "rank 0 of the learner is gone"));
}
