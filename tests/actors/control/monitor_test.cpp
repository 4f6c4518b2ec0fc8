// What people see of a run: a line a step, about the samples that the step was trained on.
#include "actors/monitor.hpp"

#include "actors/config/run_config.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "support/caught_stderr.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::caught_stderr;
using test::contains;

namespace {

finished_step step_of(weights_version version, std::int64_t ok, std::int64_t wrong) {
  finished_step step;
  step.version = version;
  step.incarnation = 1;
  step.in_flight = 7;
  step.ages = {{0, ok + wrong}};
  step.results.step = version;
  for (std::int64_t i = 0; i < ok; ++i)
    step.results.add("ok", 0.5);
  for (std::int64_t i = 0; i < wrong; ++i)
    step.results.add("wrong_value", 0);
  for (std::int64_t i = 0; i < ok + wrong; ++i)
    step.form.add(i / 2, 10 * (i + 1), i == 0, i < ok ? 0.5 : 0);
  step.queues = {.tokens = 3, .room = 1, .verdict = 2, .group = 4, .step = 8, .seed_variants = 5};
  step.learner = R"({"tokens": 12})";
  return step;
}

struct watched {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  run_config config;
  storage::run_paths paths{folder.path()};
  base::manual_clock clock{base::started_ns()};
  role_board roles{clock};
  device_board devices;

  watched() { config.learner.steps = 100; }
  std::unique_ptr<monitor> make(std::int64_t done = 0) {
    auto made = monitor::make(config, paths, done, {roles, devices, clock});
    REQUIRE(made);
    return std::move(*made);
  }
  std::vector<base::json> metrics() const {
    std::vector<base::json> lines;
    REQUIRE(storage::read_jsonl(paths.metrics(), [&](const base::json& line) -> base::status {
      lines.push_back(line);
      return {};
    }));
    return lines;
  }
};

}  // namespace

TEST_CASE("a step's line is about its batch, metrics.jsonl about that and what was judged since") {
  watched run;
  std::vector<std::string> lines;
  {
    caught_stderr said(run.folder.path() / "said");
    const auto seen = run.make();
    // Many others were judged meanwhile, and better; three were dropped without a reward.
    std::vector<judged_sample> others(18, {1, "t", "ok", 150, 1.5, false, ""});
    // Half of the best that its prompt showed.
    others.back().use = {true, 150, false, 300};
    others.push_back({2, "t", "infra_error", 0, {}, false, ""});
    others.push_back({3, "t", "wrong_value", 0, 0, false, ""});
    others.push_back({4, "t", "unsupported", 0, {}, false, ""});
    others.push_back({5, "t", "unsupported", 0, {}, false, ""});
    seen->judged(others);
    seen->dropped({{"stale", 2}, {"noisy", 1}});
    seen->dropped({{"stale", 1}});
    seen->generated({1, 10, 40, 0, 0});
    seen->generated({0, 20, 60, 2, 500'000'000});
    seen->stepped(step_of(1, 1, 3));
    base::log_warn("test", "between two steps");
    seen->left_out();
    seen->stepped(step_of(2, 0, 0));
    seen->finish();
    lines = said.lines();
  }
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("step 1/100"));
  CHECK(lines[0].ends_with("ok  25 %  reward 0.12"));
  CHECK(contains(lines[1], "warning test: between two steps"));
  CHECK(lines[2].ends_with("no samples"));
  const auto metrics = run.metrics();
  REQUIRE(metrics.size() == 2);
  CHECK(metrics[0]["batch"]["samples"] == 4);
  CHECK(metrics[0]["batch"]["ok"].get<double>() == doctest::Approx(0.25));
  CHECK(metrics[0]["batch"]["reward"].get<double>() == doctest::Approx(0.125));
  CHECK(metrics[0]["batch"]["verdicts"]["wrong_value"] == 3);
  CHECK(metrics[0]["judged"] == 19);
  CHECK(metrics[0]["ok"].get<double>() == doctest::Approx(18.0 / 19));
  CHECK(metrics[0]["reward"].get<double>() == doctest::Approx(27.0 / 19));
  CHECK(metrics[0].value("unjudged", base::json()) ==
        base::json{{"infra_error", 1}, {"unsupported", 2}});
  CHECK(metrics[0]["exemplars"]["judged"] == 1);
  CHECK(metrics[0]["exemplars"]["over_best"].get<double>() == doctest::Approx(0.5));
  CHECK(metrics[1]["exemplars"]["judged"] == 0);
  CHECK(metrics[1]["exemplars"]["over_best"].is_null());
  CHECK(metrics[0].value("dropped", base::json()) == base::json{{"noisy", 1}, {"stale", 3}});
  CHECK(metrics[1].value("dropped", base::json()) == base::json::object());
  CHECK(metrics[0]["generator"]["kv_use"].get<double>() == doctest::Approx(0.3));
  CHECK(metrics[0]["generator"]["install_s"].get<double>() == doctest::Approx(0.25));
  CHECK(metrics[1]["generator"]["kv_use"].is_null());
  CHECK(metrics[1]["generator"]["preemptions"] == 0);
  CHECK(metrics[0]["queues"]["group"] == 4);
  CHECK(metrics[0]["queues"]["seed_variants"] == 5);
  CHECK(metrics[0]["completions"]["tokens_mean"].get<double>() == doctest::Approx(25));
  CHECK(metrics[0]["completions"]["truncated"].get<double>() == doctest::Approx(0.25));
  CHECK(metrics[0]["groups"]["without_spread"].get<double>() == doctest::Approx(0.5));
  CHECK(metrics[1]["completions"]["tokens_max"].is_null());
  CHECK(metrics[0]["left_out"] == 0);
  CHECK(metrics[1]["batch"]["samples"] == 0);
  CHECK(metrics[1]["batch"]["ok"].is_null());
  CHECK(metrics[1]["batch"]["reward"].is_null());
  CHECK(metrics[1]["judged"] == 0);
  CHECK(metrics[1].value("unjudged", base::json()) == base::json::object());
  CHECK(metrics[1]["ok"].is_null());
  CHECK(metrics[1]["reward"].is_null());
  CHECK(metrics[1]["left_out"] == 1);
}

TEST_CASE("a step before which nothing got a reward has no mean reward and no share of ok") {
  watched run;
  const auto seen = run.make();
  seen->judged({{1, "t", "unsupported", 0, {}, false, ""}, {2, "t", "noisy", 0, {}, false, ""}});
  seen->stepped(step_of(1, 1, 3));
  seen->finish();
  const auto metrics = run.metrics();
  REQUIRE(metrics.size() == 1);
  CHECK(metrics[0]["judged"] == 0);
  CHECK(metrics[0]["ok"].is_null());
  CHECK(metrics[0]["reward"].is_null());
  CHECK(metrics[0].value("unjudged", base::json()) == base::json{{"noisy", 1}, {"unsupported", 1}});
}

TEST_CASE("a ruined policy is warned of, in any life of the run, and again at its end") {
  watched run;
  std::vector<std::string> lines;
  {
    caught_stderr said(run.folder.path() / "said");
    auto seen = run.make();
    for (weights_version step = 1; step <= 3; ++step)
      seen->stepped(step_of(step, 8, 8));
    for (weights_version step = 4; step <= 5; ++step)
      seen->stepped(step_of(step, 0, 16));
    // Paused and gone on with; step 5 is taken again.
    seen = run.make(4);
    for (weights_version step = 5; step <= 9; ++step)
      seen->stepped(step_of(step, 0, 16));
    const auto warnings = seen->snapshot()["warnings"];
    CHECK(warnings.size() == 2);
    lines = said.lines();
  }
  int collapsed = 0, unrewarded = 0;
  for (const std::string& line : lines) {
    collapsed += contains(line, "the success rate collapsed: 0 of 64 samples of steps 4-7") ? 1 : 0;
    unrewarded += contains(line, "every reward of steps 4-6 is 0: 48 samples (wrong_value 48)");
  }
  CHECK(collapsed == 1);
  CHECK(unrewarded == 1);
  const auto remarks = read_metrics_so_far(run.paths.metrics(), 100, 9).warnings();
  REQUIRE(remarks.size() == 2);
  CHECK(contains(remarks[0], "every reward of steps 4-9 is 0: 96 samples"));
  CHECK(
      contains(remarks[1],
               "0 of 96 samples of steps 4-9 are ok (wrong_value 96), 24 of 48 of steps 1-3 were"));
}

TEST_CASE("a stall says why no device takes work, where that is the reason") {
  watched run;
  std::vector<std::string> lines;
  {
    caught_stderr said(run.folder.path() / "said");
    const auto seen = run.make();
    run.clock.advance(299'000'000'000);
    seen->look();
    run.clock.advance(1'000'000'000);
    seen->look();
    run.devices.joined(5, {"node7", 4711, {"cpp"}, {{0, "cpp-test"}}});
    run.devices.troubles(5, {{0, {"failures: no room in /tmp", 0}}});
    run.clock.advance(300'000'000'000);
    seen->look();
    lines = said.lines();
  }
  REQUIRE(lines.size() == 2);
  CHECK(contains(lines[0], "for 5:00, at step 0: quern status says which role"));
  CHECK(contains(lines[1],
                 "for 5:00, at step 0: no device takes work: device 0 (cpp-test) of host node7 "
                 "(process 4711) is in quarantine: failures: no room in /tmp"));
}

TEST_CASE("a damaged line of metrics.jsonl costs its own step alone") {
  watched run;
  std::vector<std::string> lines;
  std::vector<std::string> remarks;
  {
    caught_stderr said(run.folder.path() / "said");
    const auto seen = run.make();
    for (weights_version step = 1; step <= 9; ++step)
      seen->stepped(step_of(step, 0, 16));
    seen->finish();
    std::string text = base::read_file(run.paths.metrics()).value();
    const auto second = text.find('\n') + 1;
    text.replace(second, 9, std::string(9, '\0'));
    REQUIRE(base::write_file_atomic(run.paths.metrics(), text));
    remarks = read_metrics_so_far(run.paths.metrics(), 100, 9).warnings();
    lines = said.lines();
  }
  REQUIRE(remarks.size() == 2);
  CHECK(contains(remarks[0], "metrics.jsonl lacks step 2: 1 of the 9 steps"));
  CHECK(contains(remarks[1], "every reward of steps 1 and 3-9 is 0: 128 samples"));
  CHECK(contains(lines.back(), "1 damaged lines are left out"));
  CHECK(contains(lines.back(), "metrics.jsonl line 2"));
}

TEST_CASE(
    "a run that goes on without its metrics.jsonl, or with a cut one, says which steps it lacks") {
  watched run;
  std::vector<std::string> lines;
  base::json warnings;
  {
    caught_stderr said(run.folder.path() / "said");
    auto seen = run.make();
    for (weights_version step = 1; step <= 12; ++step)
      seen->stepped(step_of(step, 0, 2));
    seen->finish();
    const std::string whole = base::read_file(run.paths.metrics()).value();
    SUBCASE("missing") {
      REQUIRE(std::filesystem::remove(run.paths.metrics()));
    }
    SUBCASE("cut, in the midst of a line") {
      const std::size_t fifth = whole.find("{\"step\":5,");
      REQUIRE(fifth != std::string::npos);
      REQUIRE(base::write_file_atomic(run.paths.metrics(), whole.substr(0, fifth + 9)));
    }
    const bool cut = std::filesystem::exists(run.paths.metrics());
    seen = run.make(12);
    warnings = seen->snapshot()["warnings"];
    lines = said.lines();
    REQUIRE(warnings.size() == (cut ? 2U : 1U));
    CHECK(contains(warnings[0].get<std::string>(),
                   run.paths.metrics().string() +
                       (cut ? " lacks steps 5-12: 8" : " lacks steps 1-12: 12") +
                       " of the 12 steps"));
    CHECK(contains(lines.back(), warnings[0].get<std::string>()));
    seen->stepped(step_of(13, 0, 2));
    if (cut) {
      // Never of the steps between.
      CHECK(contains(seen->snapshot()["warnings"][1].get<std::string>(),
                     "every reward of steps 1-4 and 13 is 0: 10 samples"));
    }
  }
}

TEST_CASE("a search has a table of its best, and a line of metrics.jsonl for each row") {
  watched run;
  search_book book(12, 4, 1);
  std::vector<std::string> lines;
  {
    caught_stderr said(run.folder.path() / "said");
    const auto seen = run.make();
    seen->searched(nullptr, 1, {});
    seen->searched(&book, 1, {});
    for (int sample = 1; sample <= 12; ++sample) {
      book.ended("ok");
      if (sample % 4 == 1) book.found("t", {sample, 100 + sample, 100, 130});
      seen->judged({{sample, "t", "ok", 100, 1.0, false, "", {}}});
      seen->dropped({{"noisy", 1}});
      seen->searched(&book, 1, {.tokens = 12 - sample});
    }
    CHECK(seen->snapshot()["progress"] == "12 of 12 evaluations, best 1.09x");
    CHECK(seen->snapshot()["steps"] == 0);
    seen->finish();
    lines = said.lines();
  }
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == book.table_head());
  CHECK(lines[3] == book.table_row());
  const auto metrics = run.metrics();
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[0]["spent"] == 4);
  CHECK(metrics[0]["judged"] == 4);
  CHECK(metrics[1]["judged"] == 4);
  CHECK(metrics[1]["dropped"]["noisy"] == 4);
  CHECK(metrics[1]["queues"]["tokens"] == 4);
  CHECK(metrics[2]["budget"] == 12);
  CHECK(metrics[2]["verdicts"]["ok"] == 12);
  REQUIRE(metrics[2]["improved"].size() == 1);
  CHECK(metrics[2]["improved"][0]["sample"] == 9);
  // Another life begins with what is known, and repeats no line.
  {
    caught_stderr said(run.folder.path() / "said again");
    const auto seen = run.make();
    seen->searched(&book, 2, {});
    seen->finish();
    lines = said.lines();
  }
  REQUIRE(lines.size() == 2);
  CHECK(lines[1] == book.table_row());
  CHECK(run.metrics().size() == 3);
}
