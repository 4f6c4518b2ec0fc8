// Files in KernelBench's form, byte by byte, and its baselines.
#include "tools/bench/kernelbench_files.hpp"

#include <cmath>
#include <limits>

#include "base/file.hpp"
#include "base/random.hpp"
#include "kernelbench_support.hpp"
#include "tools/bench/python_json.hpp"

using namespace quern;
using test::contains;
using test::placed_run;
namespace fs = std::filesystem;

namespace {

std::string golden(const std::string& name) {
  return base::read_file(test::source_dir() / "tests/golden/kernelbench" / name).value();
}

std::string text_of(const fs::path& path) {
  return base::read_file(path).value_or("none");
}

void refuse_baselines(std::string_view text, std::initializer_list<std::string_view> parts) {
  const auto found = tools::parse_kernelbench_baselines(text, "times.json");
  CAPTURE(text);
  REQUIRE_FALSE(found.has_value());
  CAPTURE(found.error().message);
  CHECK(found.error().code == base::errc::invalid_argument);
  CHECK(contains(found.error().message, "times.json"));
  for (const std::string_view part : parts)
    CHECK(contains(found.error().message, part));
}

const std::string times_text =
    R"({"level1": {"2_Made.py": {"mean": 1.7, "std": 0.1, "hardware": "Card B", "device": "cuda:0"},
                   "3_Made.py": {"mean": 0.5, "hardware": "Card A"}, "4_Made.py": {"mean": 9}},
        "level2": {}})";

struct written_run {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path out = folder.path() / "my_run";
  placed_run run;
  std::vector<std::int64_t> pass_k = {1, 5};
  tools::kernelbench_baselines given =
      tools::parse_kernelbench_baselines(times_text, "times.json").value();

  void write(std::size_t over_files) {
    const std::vector<tools::kernelbench_baselines> files(over_files, given);
    const auto attempts = run.attempts();
    const auto checked = tools::check_kernelbench_folder(out, run.suite);
    REQUIRE_MESSAGE(checked.has_value(), checked.error().message);
    const auto written =
        tools::write_kernelbench_folder(out, {run.suite, attempts, "gpu-x", pass_k, files});
    REQUIRE_MESSAGE(written.has_value(), written.error().message);
  }
  void refused(std::initializer_list<std::string_view> parts) const {
    const auto checked = tools::check_kernelbench_folder(out, run.suite);
    REQUIRE_FALSE(checked.has_value());
    for (const std::string_view part : parts)
      CHECK(contains(checked.error().message, part));
  }
};

}  // namespace

TEST_CASE("numbers as Python writes them") {
  const auto text = [](double value) { return tools::python_float(value); };
  CHECK(text(0) == "0.0");
  CHECK(text(-0.0) == "-0.0");
  CHECK(text(-1) == "-1.0");
  CHECK(text(2.66) == "2.66");
  CHECK(text(0.1 + 0.2) == "0.30000000000000004");
  CHECK(text(0.0001) == "0.0001");
  CHECK(text(0.00001) == "1e-05");
  CHECK(text(1.25e-7) == "1.25e-07");
  CHECK(text(1e15) == "1000000000000000.0");
  CHECK(text(123456789012345680.0) == "1.2345678901234568e+17");
  CHECK(text(9999999999999998.0) == "9999999999999998.0");
  CHECK(text(1e16) == "1e+16");
  CHECK(text(1.7976931348623157e308) == "1.7976931348623157e+308");
  CHECK(text(5e-324) == "5e-324");
  CHECK(text(std::nan("")) == "NaN");
  CHECK(text(-std::numeric_limits<double>::infinity()) == "-Infinity");
}

TEST_CASE("texts, lists and objects as Python writes them") {
  const base::ordered_json value = {{"z", "\u00e9\U0001f600\x7f\t\"\\/"},
                                    {"a", base::ordered_json::array()},
                                    {"b", base::ordered_json::object()},
                                    {"c", {1, nullptr, true}}};
  CHECK(tools::python_json(value, 2) ==
        "{\n  \"z\": \"\\u00e9\\ud83d\\ude00\\u007f\\t\\\"\\\\/\",\n  \"a\": [],\n  \"b\": {},\n"
        "  \"c\": [\n    1,\n    null,\n    true\n  ]\n}");
  CHECK(tools::python_json("\xff", 2) == "\"\\ufffd\"");
}

TEST_CASE("a run's files are those of KernelBench's writers, byte by byte") {
  written_run f;
  f.write(1);
  for (const char* name : {"eval_results.json", "pass_at_k_results.json", "analysis.json",
                           "analysis_over_baselines.json"}) {
    CAPTURE(name);
    CHECK(text_of(f.out / name) == golden(name));
  }
  // A file of baselines each, by the order given; what a third one left goes.
  f.write(3);
  f.write(2);
  CHECK(text_of(f.out / "analysis_over_baselines_2.json") ==
        golden("analysis_over_baselines.json"));
  CHECK_FALSE(fs::exists(f.out / "analysis_over_baselines_3.json"));
  // The same again, and without what no longer applies.
  f.run.candidates.pop_back();
  f.run.results.pop_back();
  f.write(0);
  CHECK_FALSE(fs::exists(f.out / "pass_at_k_results.json"));
  for (const char* name : {"analysis_over_baselines.json", "analysis_over_baselines_2.json"})
    CHECK_FALSE(fs::exists(f.out / name));
  CHECK_FALSE(contains(text_of(f.out / "analysis.json"), "pass_at_k"));
}

TEST_CASE("a suite of several levels has a folder for each") {
  written_run f;
  f.run.suite.members[0].place->level = 3;
  f.write(0);
  CHECK_FALSE(fs::exists(f.out / "eval_results.json"));
  const auto third = base::parse_json(text_of(f.out / "level3/eval_results.json")).value();
  CHECK(third.size() == 1);
  CHECK(third.contains("10"));
  const auto first = base::parse_json(text_of(f.out / "level1/analysis.json")).value();
  CHECK(first["run_name"] == "level1");
  CHECK(first["total_count"] == 3);
  CHECK(base::parse_json(text_of(f.out / "level3/analysis.json")).value()["level"] == 3);
}

TEST_CASE("nothing judged yet") {
  written_run f;
  f.run.results.clear();
  f.write(0);
  CHECK(text_of(f.out / "eval_results.json") == "{}");
  const auto passed = base::parse_json(text_of(f.out / "pass_at_k_results.json")).value();
  CHECK(passed["averages"].empty());
  CHECK(passed["metadata"]["total_problems"] == 0);
  const auto analysis = base::parse_json(text_of(f.out / "analysis.json")).value();
  CHECK(analysis["total_eval"] == 0);
  CHECK(analysis["geo_mean_speedup"] == 0);
  f.write(0);  // what holds no entry may be written again
}

TEST_CASE("what was not measured is -1.0, and is not called correct") {
  placed_run run;
  const auto entry = [&](env::verdict_kind kind, const std::string& reason = "") {
    run.results[2].verdict.kind = kind;
    run.results[2].verdict.reason = reason;
    return tools::kernelbench_entry(run.attempts()[2][0], "gpu-x");
  };
  const auto noisy = entry(env::verdict_kind::noisy);
  CHECK(noisy["compiled"] == true);
  CHECK(noisy["correctness"] == false);
  CHECK(noisy["runtime"] == -1.0);
  CHECK(noisy["runtime_stats"].empty());
  CHECK(noisy["metadata"].contains("error_during_performance"));
  CHECK(noisy["metadata"]["quern"]["verdict"] == "noisy");
  const auto late = entry(env::verdict_kind::timeout, "compile");
  CHECK(late["compiled"] == false);
  CHECK(late["metadata"]["error"] == "Evaluation timed out");
  CHECK(entry(env::verdict_kind::oom)["metadata"]["runtime_error_name"] == "oom");
  const auto hack = entry(env::verdict_kind::hack, "timing");
  CHECK(hack["correctness"] == false);
  CHECK(hack["metadata"]["quern"]["kind"] == "timing");
  run.results[2].verdict.time = std::nullopt;
  const auto untimed = entry(env::verdict_kind::ok);
  CHECK(untimed["correctness"] == true);
  CHECK(untimed["runtime"] == -1.0);
}

TEST_CASE("results of somebody else are never written over") {
  written_run f;
  REQUIRE(base::make_folders(f.out));
  const auto put = [&](const char* name, const std::string& text) {
    REQUIRE(base::write_file_atomic(f.out / name, text));
  };
  put("eval_results.json", R"({"1": [{"sample_id": 0, "metadata": {"hardware": "x"}}]})");
  f.refused({"eval_results.json", "not from quern", "--write-kernelbench"});
  for (const std::string bad : {"[]", "{", "{\"1\": {}}", "{\"1\": [7]}", "{\"1\": [{}]}"}) {
    put("eval_results.json", bad);
    f.refused({"not from quern"});
  }
  fs::remove(f.out / "eval_results.json");
  put("pass_at_k_results.json", "{}");
  f.refused({"pass_at_k_results.json", "not from quern"});
  fs::remove(f.out / "pass_at_k_results.json");
  put("level_1_problem_2_sample_0_kernel.py", "x");
  CHECK(tools::check_kernelbench_folder(f.out, f.run.suite).has_value());
}

TEST_CASE("tasks without a place of their own are refused") {
  written_run f;
  const auto kept = f.run.suite.members[1].place;
  f.run.suite.members[1].place = std::nullopt;
  f.refused({"--write-kernelbench", "task t_three of suite placed has no place in KernelBench"});
  const auto times = f.folder.path() / "times.json";
  REQUIRE(base::write_file_atomic(times, times_text));
  CHECK_FALSE(tools::read_kernelbench_baselines(times, f.run.suite).has_value());
  f.run.suite.members[1].place = f.run.suite.members[2].place;
  f.refused({"t_three and t_two at level 1 problem 2"});
  f.run.suite.members[1].place = kept;
  const auto found = tools::read_kernelbench_baselines(times, f.run.suite);
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  CHECK(found->mean_of(f.run.suite.members[2]) == 1.7);
  CHECK_FALSE(found->mean_of(f.run.suite.members[0]).has_value());
  REQUIRE(base::write_file_atomic(times, R"({"level2": {"2_Made.py": {"mean": 1}}})"));
  const auto other = tools::read_kernelbench_baselines(times, f.run.suite);
  REQUIRE_FALSE(other.has_value());
  CHECK(contains(other.error().message, "none of them is a task of suite placed"));
}

TEST_CASE("baselines: what they hold, and what is refused") {
  const auto found = tools::parse_kernelbench_baselines(times_text, "times.json").value();
  CHECK(found.mean_ms.size() == 3);
  CHECK(found.hardware_text() == "Card A, Card B");
  CHECK(tools::parse_kernelbench_baselines("{}", "t")->hardware_text() == "hardware not named");
  refuse_baselines("", {"not JSON"});
  refuse_baselines("[]", {"an object of levels"});
  refuse_baselines(R"({"level1": []})", {"level1", "an object of files"});
  for (const char* key :
       {"level", "level0", "level01", "levels1", "level-1", "level1x", "x", "level99999999999"})
    refuse_baselines("{\"" + std::string(key) + "\": {}}", {key, "no level"});
  const auto entry = [](const std::string& text) {
    return R"({"level1": {"a.py": )" + text + "}}";
  };
  refuse_baselines(entry("{}"), {"level1", "'a.py'", "'mean' is missing"});
  refuse_baselines(entry("3"), {"'a.py'"});
  for (const char* mean : {"0", "-1.0", "-0.0"})
    refuse_baselines(entry("{\"mean\": " + std::string(mean) + "}"), {"milliseconds above 0"});
  for (const char* mean : {"1e999", "NaN", "Infinity", "\"1\"", "null", "true"})
    refuse_baselines(entry("{\"mean\": " + std::string(mean) + "}"), {});
  refuse_baselines(entry(R"({"mean": 1, "hardware": 7})"), {"hardware"});
  refuse_baselines(entry("{\"mean\": 1, \"hardware\": \"\\u001b[31m\"}"), {"printable"});
  refuse_baselines(entry("{\"mean\": 1, \"hardware\": \"" + std::string(300, 'x') + "\"}"),
                   {"300"});
  refuse_baselines("{\"level1\": {\"" + std::string(300, 'x') + "\": {\"mean\": 1}}}", {"300"});
  refuse_baselines(
      entry("{\"mean\": 1, \"x\": " + std::string(50, '[') + std::string(50, ']') + "}"),
      {"deeper than 8"});
  std::string many = "{\"level1\": {";
  for (std::size_t i = 0; i <= tools::max_baselines; ++i)
    many += fmt::format("{}\"{}\": {{\"mean\": 1}}", i == 0 ? "" : ",", i);
  refuse_baselines(many + "}}", {"more than 100000"});
}

TEST_CASE("baselines with any byte changed are read or refused, and never more than was there") {
  base::random_stream numbers(26, "edits");
  for (int round = 0; round < 20000; ++round) {
    std::string text = times_text;
    for (std::uint64_t edits = numbers.below(4) + 1; edits > 0; --edits) {
      const auto at = static_cast<std::size_t>(numbers.below(text.size()));
      if (numbers.below(3) == 0)
        text.erase(at, 1 + static_cast<std::size_t>(numbers.below(40)));
      else
        text[at] = static_cast<char>(numbers.below(256));
      if (text.empty()) text = " ";
    }
    const auto found = tools::parse_kernelbench_baselines(text, "times.json");
    if (!found) {
      CHECK_FALSE(found.error().message.empty());
      continue;
    }
    CHECK(found->mean_ms.size() <= 3);
    for (const auto& [place, mean] : found->mean_ms)
      CHECK((place.first >= 1 && std::isfinite(mean) && mean > 0));
  }
}
