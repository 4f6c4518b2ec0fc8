// KernelBench's arithmetic, and the rows with which a report begins.
#include "tools/bench/kernelbench_scores.hpp"

#include <cmath>

#include "kernelbench_support.hpp"
#include "tools/bench/report_forms.hpp"
#include "tools/bench/score_tables.hpp"

using namespace quern;
using doctest::Approx;
using test::placed_run;
using tools::scored_problem;

namespace {

// Numbers of KernelBench's test of its scores; what must come out is computed here anew.
const std::vector<scored_problem> mixed = {
    {true, 0.1, 0.2}, {false, 0.15, 0.15}, {true, 0.2, 0.3}, {true, 0.05, 0.01}, {false, 0.3, 0.2}};
const std::vector<scored_problem> wide = {{true, 0.24, 0.3},
                                          {true, 0.31, 0.3},
                                          {true, 100.0, 200.0},
                                          {true, 0.0001, 0.0001},
                                          {false, 0.3, 0.3}};

std::vector<scored_problem> all_wrong(std::vector<scored_problem> problems) {
  for (scored_problem& one : problems)
    one.correct = false;
  return problems;
}

const tools::score_row& row(const tools::score_table& table, std::string_view view, bool without) {
  for (const tools::score_row& one : table.rows)
    if (one.view == view && one.without_degenerate == without) return one;
  FAIL("no row " << view << " " << without);
  return table.rows.front();
}

tools::bench_header made_gpu_header() {
  tools::bench_header header = test::made_header();
  header.device_class = "gpu-x";
  return header;
}

tools::bench_scores scores_of(const placed_run& run, std::vector<std::int64_t> pass_k = {1, 5},
                              std::vector<tools::kernelbench_baselines> given = {}) {
  return tools::make_scores(run.suite, run.attempts(), made_gpu_header(), pass_k, given);
}

}  // namespace

TEST_CASE("the geometric mean is of the correct ones alone") {
  // Quotients 1/2, 2/3 and 5; then 4/5, 31/30, 1/2 and 1.
  CHECK(tools::geometric_mean_of_correct(mixed) == Approx(std::cbrt(5.0 / 3)).epsilon(1e-12));
  CHECK(tools::geometric_mean_of_correct(wide) ==
        Approx(std::pow(0.8 * 31 / 30 * 0.5, 0.25)).epsilon(1e-12));
  CHECK(tools::geometric_mean_of_correct(all_wrong(mixed)) == 0);
  CHECK(tools::geometric_mean_of_correct({}) == 0);
  // A correct one that was not timed: theirs is not a number, either.
  CHECK(std::isnan(
      tools::geometric_mean_of_correct(std::vector<scored_problem>{{true, 1, -1}, {true, 3, 1}})));
}

TEST_CASE("fast_p is over all problems, and p itself is not fast") {
  CHECK(tools::fast_p(mixed, 1) == 1.0 / 5);
  CHECK(tools::fast_p(wide, 1) == 1.0 / 5);
  CHECK(tools::fast_p(mixed, 0.5) == 2.0 / 5);
  CHECK(tools::fast_p(wide, 0.5) == 3.0 / 5);
  CHECK(tools::fast_p(all_wrong(wide), 0.5) == 0);
  CHECK(tools::fast_p(mixed, 0) == 3.0 / 5);
  CHECK(tools::fast_p(mixed, 5) == 0);
  CHECK(tools::fast_p({}, 0) == 0);
  // Correct, but not timed.
  CHECK(tools::fast_p(std::vector<scored_problem>{{true, 1, -1}}, 0) == 0);
}

TEST_CASE("pass@k is the chance to draw a right one among k") {
  // 5 samples, 2 right, 2 drawn: of 10 pairs 3 have none that is right.
  CHECK(tools::pass_at_k(5, 2, 2) == Approx(0.7).epsilon(1e-15));
  CHECK(tools::pass_at_k(5, 2, 1) == Approx(0.4).epsilon(1e-15));
  CHECK(tools::pass_at_k(5, 2, 4) == 1);  // of four drawn one at least is right
  CHECK(tools::pass_at_k(5, 0, 5) == 0);
  CHECK(tools::pass_at_k(3, 3, 1) == 1);
  // Against the definition, by counting draws: C(n - c, k) / C(n, k).
  for (int n = 1; n <= 12; ++n)
    for (int c = 0; c <= n; ++c)
      for (int k = 1; k <= n; ++k) {
        double none = 1;
        for (int i = 0; i < k; ++i)
          none *= std::max(0.0, static_cast<double>(n - c - i)) / (n - i);
        CHECK(tools::pass_at_k(n, c, k) == Approx(1 - none).epsilon(1e-12));
      }
}

TEST_CASE("the k that nobody chose are those for which there are samples") {
  CHECK(tools::usual_pass_k(0).empty());
  CHECK(tools::usual_pass_k(4) == std::vector<std::int64_t>{1});
  CHECK(tools::usual_pass_k(10) == std::vector<std::int64_t>{1, 5, 10});
  CHECK(tools::usual_pass_k(1000) == std::vector<std::int64_t>{1, 5, 10, 100});
}

TEST_CASE("which verdicts are of a source that was built") {
  env::verdict v;
  for (const auto kind : {env::verdict_kind::malformed, env::verdict_kind::rejected_static,
                          env::verdict_kind::compile_error, env::verdict_kind::infra_error}) {
    v.kind = kind;
    CHECK_FALSE(tools::is_compiled(v));
  }
  for (const auto kind :
       {env::verdict_kind::runtime_error, env::verdict_kind::wrong_value, env::verdict_kind::hack,
        env::verdict_kind::noisy, env::verdict_kind::ok}) {
    v.kind = kind;
    CHECK(tools::is_compiled(v));
    CHECK(tools::is_correct(v) == (kind == env::verdict_kind::ok));
  }
  v.kind = env::verdict_kind::timeout;
  v.reason = "verify";
  CHECK(tools::is_compiled(v));
  v.reason = "compile";
  CHECK_FALSE(tools::is_compiled(v));
}

TEST_CASE("attempts: own numbers stay, the others come behind them") {
  placed_run run;
  auto unnumbered = run.candidates[2];
  unnumbered.id = "z.py";
  unnumbered.sample = std::nullopt;
  run.candidates.insert(run.candidates.begin(), unnumbered);
  unnumbered.member = 3;
  unnumbered.task = "t_four";
  run.candidates.push_back(unnumbered);
  run.results.pop_back();
  const auto attempts = run.attempts();
  REQUIRE(attempts[2].size() == 3);
  CHECK(attempts[2][0].verdict == &run.results[2].verdict);
  CHECK(attempts[2][1].verdict == nullptr);  // asked, but not judged yet
  CHECK(attempts[2][2].candidate == "z.py");
  CHECK(attempts[2][2].sample == 2);
  CHECK(attempts[3][0].sample == 0);
  CHECK(tools::most_attempts(attempts) == 3);
}

TEST_CASE("rows: every task of the suite counts, with and without degenerate ones") {
  const auto scores = scores_of({});
  CHECK(scores.degenerate == 1);
  REQUIRE(scores.tables.size() == 1);
  const auto& table = scores.tables.front();
  CHECK(table.rows.size() == 4);
  const auto& first = row(table, "sample 0 of each task", false);
  CHECK(first.tasks == 4);
  CHECK(first.compiled == 2);
  CHECK(first.correct == 2);
  CHECK(first.fast == std::array<double, 6>{0.5, 0.5, 0.5, 0.5, 0.5, 0.25});  // 2x is not above 2
  CHECK(first.speed.geometric_mean == Approx(std::sqrt(40.0)));
  CHECK(first.speed.mean == Approx(11));
  CHECK(first.speed.max == Approx(20));
  CHECK(first.speed.faster_share == Approx(0.5));
  const auto& without = row(table, "sample 0 of each task", true);
  CHECK(without.tasks == 3);
  CHECK(without.fast[0] == Approx(2.0 / 3));
  REQUIRE(scores.pass.size() == 2);
  using k_and_mean = std::pair<std::int64_t, double>;
  CHECK(scores.pass[0].of_k == std::vector<k_and_mean>{{1, 1.5 / 4}, {5, 2.0 / 4}});
  CHECK(scores.pass[1].of_k == std::vector<k_and_mean>{{1, 1.5 / 3}, {5, 2.0 / 3}});
}

TEST_CASE("rows: the best of a task, and sample 0 alone") {
  placed_run run;
  std::swap(run.results[2].verdict, run.results[3].verdict);  // now sample 1 is the right one
  const auto scores = scores_of(run);
  const auto& table = scores.tables.front();
  CHECK(row(table, "sample 0 of each task", false).correct == 1);
  CHECK(row(table, "best of each task", false).correct == 2);
  CHECK(row(table, "best of each task", false).compiled == 2);
  // One sample a task, and it is sample 0: both views are one.
  run.candidates.pop_back();
  run.results.pop_back();
  const auto single = scores_of(run);
  CHECK(single.tables.front().rows.size() == 2);
  CHECK(single.pass.empty());
  // Sample 0 was never written.
  run.candidates.back().sample = 1;
  CHECK(scores_of(run).tables.front().rows.size() == 4);
}

TEST_CASE("rows over times of a file: the tasks that it has, and a warning") {
  tools::kernelbench_baselines given{"times.json", {}, {"Card B"}};
  given.mean_ms = {{{1, "2_Made.py"}, 1.7},
                   {{1, "3_Made.py"}, 0.5},
                   {{1, "4_Made.py"}, 9},
                   {{2, "10_Made.py"}, 1}};
  const auto scores = scores_of({}, {1}, {given});
  REQUIRE(scores.tables.size() == 2);
  const auto& table = scores.tables.back();
  CHECK(test::contains(table.over, "times.json (Card B), which has 3 of 4 tasks"));
  CHECK(test::contains(table.warning, "Card B"));
  CHECK(test::contains(table.warning, "gpu-x"));
  const auto& first = row(table, "sample 0 of each task", false);
  CHECK(first.tasks == 3);
  CHECK(first.correct == 1);
  CHECK(first.speed.geometric_mean == Approx(1.7 / 2.1));
  CHECK(first.fast[2] == Approx(1.0 / 3));
  CHECK(first.fast[3] == 0);
  CHECK(row(table, "sample 0 of each task", true).tasks == 2);
}

TEST_CASE("rows over each of several files, in their order") {
  const tools::kernelbench_baselines slow{"eager.json", {{{1, "2_Made.py"}, 4.2}}, {"Card B"}};
  const tools::kernelbench_baselines fast{
      "compile.json", {{{1, "2_Made.py"}, 1.05}, {{1, "10_Made.py"}, 2.4e-5}}, {"Card B"}};
  const auto scores = scores_of({}, {1}, {slow, fast});
  REQUIRE(scores.tables.size() == 3);
  // The candidates take 2.1 ms and 12 ns: 4.2 / 2.1; then 1.05 / 2.1 and 24 / 12.
  const auto& first = row(scores.tables[1], "sample 0 of each task", false);
  CHECK(test::contains(scores.tables[1].over, "eager.json"));
  CHECK(first.tasks == 1);
  CHECK(first.speed.mean == Approx(2));
  CHECK(first.speed.faster_share == 1);
  const auto& second = row(scores.tables[2], "sample 0 of each task", false);
  CHECK(test::contains(scores.tables[2].over, "compile.json"));
  CHECK(second.tasks == 2);
  CHECK(second.speed.mean == Approx(1.25));
  CHECK(second.speed.max == Approx(2));
  CHECK(second.speed.p75 == Approx(1.625));
  CHECK(second.speed.p50 == Approx(1.25));
  CHECK(second.speed.p25 == Approx(0.875));
  CHECK(second.speed.faster_share == Approx(0.5));
}

TEST_CASE("rows: how near correct candidates came to the roofline") {
  placed_run run;
  CHECK(row(scores_of(run).tables.front(), "sample 0 of each task", false).roofline.tasks == 0);
  CHECK(tools::to_json(scores_of(run))["tables"][0]["rows"][0]["roofline"].is_null());
  // 6 bytes at 1 GB/s are 6 ns of 12; 1.2 MB are 1.2 ms of the median, 2 ms.
  const auto moves = [](std::int64_t bytes) {
    env::work_report work;
    work.bytes = bytes;
    work.bytes_per_s = 1'000'000'000;
    return work;
  };
  run.results[0].verdict.work = moves(6);
  run.results[2].verdict.work = moves(1'200'000);
  run.results[3].verdict.work = moves(9'000'000);  // is wrong, and has no time
  const auto scores = scores_of(run);
  for (const char* view : {"sample 0 of each task", "best of each task"}) {
    const auto& shares = row(scores.tables.front(), view, false).roofline;
    CHECK(shares.tasks == 2);
    CHECK(shares.mean == Approx(0.55));
    CHECK(shares.median == Approx(0.55));
    CHECK(shares.largest == Approx(0.6));
  }
  const auto value = tools::to_json(scores)["tables"][0]["rows"][0]["roofline"];
  CHECK(value["mean"] == Approx(0.55));
  CHECK(value["tasks"] == 2);
  CHECK(test::contains(tools::to_text(scores), "55.0%"));
  CHECK(test::contains(tools::to_html(scores), "<th>roofline</th>"));
}

TEST_CASE("every form of the report has the rows, before all other figures") {
  const placed_run run;
  tools::kernelbench_baselines given{"<times>.json", {{{1, "2_Made.py"}, 1.7}}, {}};
  const auto scores = scores_of(run, {1, 5}, {given});
  const std::vector<std::int64_t> counts = {1, 1, 2, 0};
  const auto report = tools::make_report(made_gpu_header(), run.suite, counts, run.results);
  const std::string text = tools::to_text(report, scores, false);
  const std::string page = tools::to_html(report, scores);
  CAPTURE(text);
  CHECK(text.find("KernelBench's figures") < text.find("best of each task       "));
  CHECK(page.find("KernelBench's figures") < page.find("<h2>Best of each task"));
  CHECK(test::contains(text, "sample 0 of each task, without 1 degenerate"));
  CHECK(test::contains(text, "4 tasks: pass@1 37.5%, pass@5 50.0%"));
  CHECK(test::contains(text, "3 tasks, without 1 degenerate: pass@1 50.0%, pass@5 66.7%"));
  CHECK(test::contains(text, "hardware not named"));
  CHECK(text.find("pass@1") < text.find("<times>.json"));
  CHECK(test::contains(text, "WARNING: times of two measurements"));
  CHECK(test::contains(page, "&lt;times&gt;.json"));
  CHECK_FALSE(test::contains(page, "<times>"));
  CHECK(test::contains(page, "<th>fast_0.8</th>"));
  const auto value = tools::to_json(report, scores);
  CHECK(std::next(value.begin(), 2).key() == "kernelbench");
  const auto& rows = value["kernelbench"]["tables"][0]["rows"];
  CHECK(rows[0]["compilation_rate"] == Approx(0.5));
  CHECK(rows[0]["fast_p"]["2.0"] == Approx(0.25));
  CHECK(rows[1]["without_degenerate"] == true);
  CHECK(value["kernelbench"]["pass_at_k"][0]["pass@5"] == Approx(0.5));
  CHECK(value["kernelbench"]["degenerate_tasks"] == 1);
}

TEST_CASE("rows of nothing have no speed-up") {
  placed_run run;
  run.candidates.clear();
  run.results.clear();
  const auto scores = scores_of(run, {});
  CHECK(test::contains(tools::to_text(scores), "0.0%"));
  CHECK(tools::to_json(scores)["tables"][0]["rows"][0]["geo_mean_speedup"].is_null());
  CHECK_FALSE(test::contains(tools::to_html(scores), "nan"));
}
