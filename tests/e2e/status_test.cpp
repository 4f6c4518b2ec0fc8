// quern status on runs in every state, as text and as JSON, once and again.
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/written_run.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

struct looking {
  base::temp_folder folder = std::move(base::temp_folder::make("status").value());
  fs::path path = folder.path() / "run";
  int logs = 0;

  finished status(std::vector<std::string> words = {}) {
    words.insert(words.begin(), {program("quern"), "status", path.string()});
    return run_to_end(words, folder.path() / ("log" + std::to_string(logs++)));
  }
  base::json json() {
    const finished end = status({"--json"});
    CAPTURE(end.output);
    CHECK(end.code == 0);
    // Warnings of the log, on stderr, stand before it.
    const std::size_t at = end.output.rfind("\n", end.output.size() - 2);
    const auto value = base::parse_json(end.output.substr(at == end.output.npos ? 0 : at + 1));
    REQUIRE(value);
    return *value;
  }
  std::string text() {
    const finished end = status();
    CAPTURE(end.output);
    CHECK(end.code == 0);
    return end.output;
  }
};

}  // namespace

TEST_CASE("status of a finished run says in words where every sample is") {
  looking f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  run.checkpoint(2);
  run.drop({6, 7}, "stopped");
  run.close();
  const std::string text = f.text();
  CAPTURE(text);
  CHECK(contains(
      text, "  version 2 of the weights; the newest checkpoint has version 2; incarnation 1\n"));
  CHECK(contains(text,
                 "  7 samples issued: 4 trained, 3 dropped, none in flight. Every sample is "
                 "accounted for.\n"));
  CHECK(contains(text, "    2 stopped: the run was stopped, or had made all its steps\n"));
  CHECK(contains(text, "    1 stale: "));
  CHECK(contains(text,
                 "3 of the newest weights, 1 that were 1 step behind. 1 had tokens of several"));
  CHECK_FALSE(contains(text, "{"));
  const base::json json = f.json();
  CHECK(json["running"] == false);
  CHECK(json["ledger"]["issued"] == 7);
  CHECK(json["ledger"]["law_holds"] == true);
  CHECK(json["ledger"]["dropped"]["stopped"] == 2);
  CHECK(json["ledger"]["ages"]["1"] == 1);
  CHECK(json["ledger"]["checkpoint"] == 2);
}

TEST_CASE("status of a run that goes on, of a paused one and of one without a checkpoint") {
  looking f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  CHECK(contains(f.text(), ": running\n"));
  CHECK(f.json()["running"] == true);
  CHECK(contains(f.text(), "2 trained, 1 dropped, 4 in flight. Every sample is accounted for.\n"));
  run.close();
  CHECK(contains(f.text(), ": not running (quern resume goes on)\n"));
  CHECK(f.json()["running"] == false);
  looking other;
  test::written_run young(other.path);
  young.open().issue("abs", 2);
  CHECK(contains(other.text(), "version 0 of the weights; no checkpoint yet; incarnation 1\n"));
}

TEST_CASE("status of an empty run says so; a ledger that is gone is an error with what to do") {
  looking f;
  test::written_run run(f.path);
  CHECK(contains(f.text(), "  No sample was issued yet.\n"));
  CHECK(f.json()["ledger"]["issued"] == 0);
  run.open();
  CHECK(contains(f.text(), "  No sample was issued yet.\n"));
  run.issue("abs", 1);
  run.close();
  for (const char* file : {"run.db", "run.db-wal", "run.db-shm"})
    fs::remove(f.path / file);
  for (const char* flag : {"--json", "--watch"}) {
    const finished lost = f.status({flag});
    CAPTURE(lost.output);
    CHECK(lost.code == 1);
    CHECK(contains(lost.output, "put its run.db back"));
  }
}

TEST_CASE("status of a run whose metrics.jsonl is missing or cut says which steps it lacks") {
  looking f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  run.checkpoint(2);
  run.close();
  const fs::path metrics = f.path / "metrics.jsonl";
  const std::string first =
      R"({"step":1,"batch":{"samples":2,"rewarded":1,"reward":0.5,"verdicts":{"ok":2}}})"
      "\n";
  std::string second = first;
  second.replace(second.find('1'), 1, "2");
  REQUIRE(base::write_file_atomic(metrics, first + second));
  CHECK(f.json()["warnings"].empty());
  CHECK_FALSE(contains(f.text(), "metrics.jsonl"));
  std::string lacks;
  SUBCASE("missing") {
    fs::remove(metrics);
    lacks = " lacks steps 1-2: 2 of the 2 steps";
  }
  SUBCASE("cut") {
    REQUIRE(base::write_file_atomic(metrics, first + second.substr(0, 20)));
    lacks = " lacks step 2: 1 of the 2 steps";
  }
  REQUIRE(f.json()["warnings"].size() == 1);
  CHECK(contains(f.json()["warnings"][0].get<std::string>(), metrics.string() + lacks));
  CHECK(contains(f.text(), "  warning: " + metrics.string() + lacks));
}

TEST_CASE("status of a run whose run.db or configuration is damaged") {
  looking f;
  test::written_run run(f.path);
  run.open().write_two_steps();
  run.close();
  REQUIRE(base::write_file_atomic(f.path / "config.yaml", "no configuration"));
  REQUIRE(base::write_file_atomic(f.path / "metrics.jsonl", "{\"step\": 1\n{torn"));
  CHECK(contains(f.text(), "7 samples issued"));
  CHECK(f.json()["ledger"]["issued"] == 7);
  REQUIRE(base::write_file_atomic(f.path / "run.db", std::string(9000, 'x')));
  const finished end = f.status();
  CHECK(end.code == 1);
  CHECK(contains(end.output, "run.db"));
}

TEST_CASE("--watch looks again until the run has ended, a block or a line of JSON each time") {
  for (const bool as_json : {false, true}) {
    CAPTURE(as_json);
    looking f;
    test::written_run run(f.path);
    run.open().write_two_steps();
    const fs::path log = f.folder.path() / "watch";
    std::vector<std::string> argv = {program("quern"), "status", f.path.string(), "--watch", "0.1"};
    if (as_json) argv.emplace_back("--json");
    auto watching = base::subprocess::start({.argv = argv, .log = log});
    REQUIRE(watching);
    const std::string_view head = as_json ? "{\"quern_status\":2,\"running\":true" : ": running\n";
    const auto looks = [&] {
      const std::string text = base::read_file(log).value_or("");
      int count = 0;
      for (std::size_t at = text.find(head); at != text.npos; at = text.find(head, at + 1))
        ++count;
      return count;
    };
    REQUIRE(wait_until(60_s, [&] { return looks() >= 2; }));
    run.close();
    const auto end = watching->wait(60_s);
    REQUIRE(end);
    CHECK(end->code == 0);
    const std::string text = base::read_file(log).value_or("");
    CHECK(contains(text, as_json ? "{\"quern_status\":2,\"running\":false" : ": not running"));
    // A terminal alone is cleared.
    CHECK_FALSE(contains(text, "\x1b"));
  }
}
