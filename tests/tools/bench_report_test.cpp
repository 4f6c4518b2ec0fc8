// The figures of a benchmark, by hand, and the forms of its report.
#include <cmath>

#include "tools/bench/report_forms.hpp"
#include "tools/bench_support.hpp"

using namespace quern;
using doctest::Approx;
using env::verdict_kind;
using test::made_result;

namespace {

/// Three tasks of the suite; the first has an <ill> id.
std::vector<tools::bench_result> made_results() {
  return {made_result("abs_smooth_shift", "<b>&\"x\"", verdict_kind::ok, 400),
          made_result("abs_smooth_shift", "slow", verdict_kind::ok, 50),
          made_result("abs_smooth_shift", "wrong", verdict_kind::wrong_value),
          made_result("abs_smooth_shift", "noisy", verdict_kind::noisy),
          made_result("times_row_softmax", "a", verdict_kind::ok, 101),
          made_result("tanh_transpose", "a", verdict_kind::compile_error)};
}

tools::bench_report made_report(std::int64_t more = 0) {
  const env::suite& suite = test::quick_suite();
  std::vector<std::int64_t> given(suite.members.size(), 0);
  const auto results = made_results();
  for (const auto& one : results)
    for (std::size_t i = 0; i < suite.members.size(); ++i)
      given[i] += suite.members[i].task.name == one.task ? 1 : 0;
  given[0] += more;
  return tools::make_report(test::made_header(), suite, given, results);
}

/// Rows of nothing: kernelbench_scores_test.cpp has those of something.
const tools::bench_scores no_scores;

const tools::report_group& group(const tools::bench_report& report, std::string_view kind,
                                 std::string_view name) {
  for (const tools::report_group& one : report.groups)
    if (one.kind == kind && one.name == name) return one;
  FAIL("no group " << kind << " " << name);
  return report.groups.front();
}

std::int64_t count_of(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("failures are absent from means and percentiles and count in shares") {
  const std::vector<double> speedups = {0.5, 1.0, 2.0, 4.0};
  const auto s = tools::statistics_of(speedups, 8);
  CHECK(s.attempts == 8);
  CHECK(s.successes == 4);
  CHECK(s.success_share == Approx(0.5));
  CHECK(s.mean == Approx(1.875));
  CHECK(s.mean_failures_0 == Approx(0.9375));
  CHECK(s.geometric_mean == Approx(std::sqrt(2.0)));
  CHECK(s.max == Approx(4));
  CHECK(s.p75 == Approx(2.5));
  CHECK(s.p50 == Approx(1.5));
  CHECK(s.p25 == Approx(0.875));
  CHECK(s.faster_share == Approx(0.25));
  CHECK(s.fast[0] == Approx(3.0 / 8));  // > 0.8
  CHECK(s.fast[1] == Approx(2.0 / 8));  // > 1: 1.0 is not
  CHECK(s.fast[2] == Approx(2.0 / 8));
  CHECK(s.fast[3] == Approx(1.0 / 8));  // > 2: 2.0 is not
  CHECK(s.fast[4] == Approx(1.0 / 8));
}

TEST_CASE("nothing tried, nothing succeeded") {
  CHECK(tools::statistics_of({}, 0) == tools::speed_statistics{});
  tools::speed_statistics failed;
  failed.attempts = 3;
  CHECK(tools::statistics_of({}, 3) == failed);
}

TEST_CASE("a report: best of each task, every candidate, what says nothing") {
  const auto report = made_report();
  const auto& all = report.groups.front();
  CHECK(all.kind == "all");
  CHECK(all.tasks == 16);
  CHECK(all.without_candidates == 13);
  CHECK(all.unmeasured == 1);
  CHECK(all.best.attempts == 16);
  CHECK(all.best.successes == 2);
  CHECK(all.best.mean == Approx((4.0 + 1.01) / 2));
  CHECK(all.best.faster_share == Approx(1.0 / 16));  // 1.01 is not above 1.01
  CHECK(all.every.attempts == 5);
  CHECK(all.every.successes == 3);
  CHECK(all.every.mean == Approx((4.0 + 0.5 + 1.01) / 3));
  CHECK(report.candidates == 6);
  CHECK(report.without_verdict == 0);
  CHECK(report.kinds.at("ok") == 3);
  CHECK(report.kinds.at("noisy") == 1);
  CHECK(report.every_speedup == std::vector<double>{0.5, 1.01, 4});
  const auto& row = report.tasks.front();
  CHECK(row.name == "abs_smooth_shift");
  CHECK(row.candidates == 4);
  CHECK(row.judged == 3);
  CHECK(row.unmeasured == 1);
  CHECK(row.best_candidate == "<b>&\"x\"");
  CHECK(row.mean_speedup == Approx(2.25));
}

TEST_CASE("a report by device class, split and family: parts make up the whole") {
  const auto report = made_report();
  CHECK(group(report, "device", "cpp-avx2").every.attempts == 5);
  const auto& held = group(report, "split", "held out");
  CHECK(held.tasks == 8);
  CHECK(group(report, "split", "trained on").tasks == 8);
  CHECK(group(report, "family", "softmax").best.successes == 1);
  std::int64_t tasks = 0, judged = 0;
  for (const auto& one : report.groups) {
    if (one.kind != "family") continue;
    tasks += one.tasks;
    judged += one.every.attempts;
  }
  CHECK(tasks == 16);
  CHECK(judged == 5);
}

TEST_CASE("candidates of different device classes are apart") {
  const env::suite& suite = test::quick_suite();
  const std::vector<std::int64_t> given(suite.members.size(), 2);
  auto results = made_results();
  results[0].verdict.device_class = "cpp-sse2";
  const auto report = tools::make_report(test::made_header(), suite, given, results);
  CHECK(group(report, "device", "cpp-avx2").best.max == Approx(1.01));
  CHECK(group(report, "device", "cpp-sse2").best.max == Approx(4));
  CHECK(group(report, "device", "cpp-sse2").every.attempts == 1);
}

TEST_CASE("text and page say what is missing, and the rules") {
  const auto report = made_report(2);
  const std::string text = tools::to_text(report, no_scores, true),
                    page = tools::to_html(report, no_scores);
  CHECK(test::contains(text, "8 candidates"));
  CHECK(test::contains(text, "2 WITHOUT A VERDICT"));
  CHECK(test::contains(text, "13 of 16 tasks have no candidate"));
  CHECK(test::contains(text, "fast_1.5"));
  CHECK(test::contains(page, "2 candidates have no verdict"));
  CHECK(test::contains(page, "13 of 16 tasks have no candidate"));
  for (const std::string_view rule : tools::report_rules()) {
    CHECK(test::contains(text, rule));
    CHECK(test::contains(page, tools::escape_html(rule)));
  }
  CHECK_FALSE(test::contains(tools::to_text(made_report(), no_scores, false), "WITHOUT A VERDICT"));
  CHECK_FALSE(test::contains(tools::to_html(made_report(), no_scores), "no verdict"));
}

TEST_CASE("who was left out stands in every form, and in no figure") {
  const env::suite& suite = test::quick_suite();
  std::vector<std::int64_t> given(suite.members.size(), 0);
  given[0] = 2;
  std::vector<tools::bench_result> results = {
      made_result("abs_smooth_shift", "a", verdict_kind::ok, 200),
      made_result("abs_smooth_shift", "<bad>", verdict_kind::infra_error)};
  results[1].verdict.reason = tools::left_out_reason;
  results[1].verdict.detail = "left out: memory & more";
  const auto report = tools::make_report(test::made_header(), suite, given, results);
  REQUIRE(report.left_out.size() == 1);
  CHECK(report.without_verdict == 0);
  CHECK(report.groups.front().unmeasured == 1);
  CHECK(report.groups.front().every.attempts == 1);
  CHECK(test::contains(tools::to_text(report, no_scores, false),
                       "candidate '<bad>' of task abs_smooth_shift was left out: memory & more\n"));
  CHECK(test::contains(
      tools::to_html(report, no_scores),
      "Candidate '&lt;bad&gt;' of task abs_smooth_shift was left out: memory &amp; more."));
  const auto value = tools::to_json(report, no_scores);
  REQUIRE(value["left_out"].size() == 1);
  CHECK(value["left_out"][0]["candidate"] == "<bad>");
  CHECK(value["left_out"][0]["why"] == "left out: memory & more");
  CHECK(tools::to_json(made_report(), no_scores)["left_out"].empty());
}

TEST_CASE("what people wrote is no markup") {
  const std::string page = tools::to_html(made_report(), no_scores);
  CHECK_FALSE(test::contains(page, "<b>"));
  CHECK(test::contains(page, "&lt;b&gt;&amp;&quot;x&quot;"));
  CHECK(tools::escape_html("a'b") == "a&#39;b");
  CHECK(count_of(page, "<svg") == 3);
  CHECK(count_of(page, "</svg>") == 3);
  for (const char* bad : {"nan", "inf\"", "inf,"})
    CHECK_FALSE(test::contains(page, bad));
}

TEST_CASE("a report of nothing has a page, too") {
  const env::suite& suite = test::quick_suite();
  const std::vector<std::int64_t> given(suite.members.size(), 0);
  const auto report = tools::make_report(test::made_header(), suite, given, {});
  CHECK_FALSE(test::contains(tools::to_html(report, no_scores), "nan"));
  CHECK(tools::to_json(report, no_scores)["groups"][0]["best_of_each_task"]["mean"].is_null());
}

TEST_CASE("JSON holds the figures; what does not exist is null") {
  const auto value = tools::to_json(made_report(), no_scores);
  CHECK(value["quern_bench_report"] == 1);
  CHECK(value["of"]["environment"] == "e1");
  CHECK(value["verdicts"]["ok"] == 3);
  const auto& all = value["groups"][0];
  CHECK(all["best_of_each_task"]["fast_p"]["3"] == Approx(1.0 / 16));
  CHECK(all["every_candidate"]["success_share"] == Approx(3.0 / 5));
  CHECK(value["tasks"].size() == 16);
  CHECK(value["tasks"][0]["best_speedup"] == Approx(4));
  CHECK(value["tasks"][1]["best_speedup"].is_null());
  CHECK(base::parse_json(base::dump_pretty(value)).has_value());
}

TEST_CASE("the curve of fast_p begins at the share of successes and ends at none") {
  const std::vector<double> best = {0.5, 2};
  const std::string plot = tools::plot_fast(best, 4, {}, 0);
  // The axis is 0.5 .. 4; 50 % is half way up, the last speed-up takes the curve to the ground.
  CHECK(test::contains(plot,
                       "points=\"56.0,132.0 56.0,132.0 56.0,192.0 469.3,192.0 469.3,252.0 "
                       "676.0,252.0\""));
}

TEST_CASE("progress: rate and time left are of what was judged now") {
  using base::operator""_s;
  CHECK(tools::progress_line(5, 10, 0, 3, 100_s) == "5/10 judged, 3 ok");
  CHECK(tools::progress_line(7, 10, 2, 4, 20_s) == "7/10 judged, 4 ok, 360 an hour, 30.0 s left");
  CHECK(tools::progress_line(10, 10, 5, 4, 50_s) == "10/10 judged, 4 ok, 360 an hour");
}

TEST_CASE("a report says what was unsupported, by reason, and how it counts") {
  env::verdict v;
  CHECK(tools::unsupported_reason(v) == "no reason was told");
  v.detail = "inputs, results and weights have 1792 MiB, on a core at most 1024";
  CHECK(tools::unsupported_reason(v) ==
        "inputs, results and weights have N MiB, on a core at most N");
  v.detail = "the CUDA sources of extension 'a<b' need a GPU";
  CHECK(tools::unsupported_reason(v) == "the CUDA sources of extension '...' need a GPU");
  v.detail = "an odd quote ' is kept";
  CHECK(tools::unsupported_reason(v) == v.detail);
  v.reason = "word";
  CHECK(tools::unsupported_reason(v) == "word");

  const env::suite& suite = test::quick_suite();
  std::vector<std::int64_t> given(suite.members.size(), 0);
  given[0] = 4;
  std::vector<tools::bench_result> results;
  for (const char* detail : {"kernels in Triton need a GPU", "extension '<x>' needs a GPU",
                             "extension 'y' needs a GPU"}) {
    results.push_back(made_result(suite.members[0].task.name, detail, verdict_kind::unsupported));
    results.back().verdict.detail = detail;
  }
  const auto other = made_result(suite.members[0].task.name, "wrong", verdict_kind::wrong_value);
  results.push_back(other);
  const auto report = tools::make_report(test::made_header(), suite, given, results);
  const std::string note = tools::unsupported_note(report);
  CHECK(test::contains(note, "3 candidates are `unsupported`"));
  CHECK(test::contains(note, "2 x extension '...' needs a GPU; 1 x kernels in Triton need a GPU."));
  CHECK(test::contains(note, "not correct; no reward is made of them"));
  CHECK(test::contains(tools::to_text(report, no_scores, false), note));
  CHECK(test::contains(tools::to_html(report, no_scores), "1 x kernels in Triton"));
  CHECK(test::contains(tools::to_html(report, no_scores), "extension &#39;...&#39; needs"));
  const auto value = tools::to_json(report, no_scores)["unsupported"];
  CHECK(value["reasons"]["extension '...' needs a GPU"] == 2);
  CHECK(value["note"] == note);
  // Of no such candidate nothing is said.
  const auto without = tools::make_report(test::made_header(), suite, given, {&other, 1});
  CHECK(tools::unsupported_note(without).empty());
  CHECK_FALSE(test::contains(tools::to_text(without, no_scores, false), "on this device class"));
}
