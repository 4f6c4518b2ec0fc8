// quern report on runs in every state that needs no measurement.
#include "base/file.hpp"
#include "e2e/run_fixture.hpp"
#include "support/written_run.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

struct reporting {
  base::temp_folder folder = std::move(base::temp_folder::make("report").value());
  fs::path path = folder.path() / "run";
  int logs = 0;

  finished report() {
    return run_to_end({program("quern"), "report", path.string()},
                      folder.path() / ("log" + std::to_string(logs++)));
  }
};

std::string steps(int count) {
  return "learner: {steps: " + std::to_string(count) + "}\nobserve: {evaluation_set: false}\n";
}

}  // namespace

TEST_CASE(
    "the report of a finished run accounts for every sample, and has verdicts and staleness") {
  reporting f;
  test::written_run run(f.path, "contrastive", steps(2));
  run.open().write_two_steps();
  run.checkpoint(2);
  run.drop({6, 7}, "stopped");
  run.close();
  const finished end = f.report();
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output,
                 "7 samples issued: 4 trained, 3 dropped, none in flight. Every sample is "
                 "accounted for.\n  2 stopped: "));
  CHECK(contains(end.output, "\nVerdicts of samples: 4 ok, 1 wrong_value.\n"));
  CHECK(contains(end.output, "\nSamples when a step used them: 3 of the newest weights, 1 that "));
  CHECK(contains(end.output, base::read_file(f.path / "report.txt").value_or("none")));
}

TEST_CASE("the report of a paused run says how far it is, and what is in flight") {
  reporting f;
  test::written_run run(f.path, "contrastive", steps(5));
  run.open().write_two_steps();
  run.close();
  const finished end = f.report();
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "at step 1 of 5:\n"));
  CHECK(contains(end.output, "2 trained, 1 dropped, 4 in flight. Every sample is accounted for."));
}

TEST_CASE("a run that goes on, a broken and an empty one have no report; each says why") {
  reporting f;
  test::written_run run(f.path, "contrastive", steps(2));
  const finished running = f.report();
  CAPTURE(running.output);
  CHECK(contains(running.output, f.path.string()));
  CHECK_FALSE(fs::exists(f.path / "report.txt"));
  run.open();
  run.close();
  const finished empty = f.report();
  CAPTURE(empty.output);
  CHECK(empty.code == 0);
  CHECK(contains(empty.output, "at step 0 of 2:\nNo sample was issued yet.\n"));
  REQUIRE(base::write_file_atomic(f.path / "run.db", std::string(9000, 'x')));
  const finished broken = f.report();
  CAPTURE(broken.output);
  CHECK(broken.code == 1);
  CHECK(contains(broken.output, "restore " + fs::canonical(f.path / "run.db").string()));
}

TEST_CASE(
    "the report of a run whose run.db is gone says what to do, and ends as for a broken one") {
  reporting f;
  test::written_run run(f.path, "contrastive", steps(2));
  run.open().write_two_steps();
  run.close();
  for (const char* file : {"run.db", "run.db-wal", "run.db-shm"})
    fs::remove(f.path / file);
  const finished lost = f.report();
  CAPTURE(lost.output);
  CHECK(lost.code == 1);
  CHECK(contains(lost.output, "put its run.db back"));
}
