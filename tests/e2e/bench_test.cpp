// quern bench through its command line: bad input, a kill in the middle, the report.
#include <algorithm>
#include <csignal>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "env/task/suite.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

struct bench_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  std::string suite = (source_dir() / "env/suites/cpu_quick").string();
  fs::path candidates = folder.path() / "candidates";
  fs::path results = folder.path() / "out/results.jsonl";
  std::string budget = "0.1";
  int logs = 0;

  void write(const fs::path& name, const std::string& text) const {
    REQUIRE(base::make_folders((folder.path() / name).parent_path()));
    REQUIRE(base::write_file_atomic(folder.path() / name, text));
  }
  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        program("quern"), "bench",          suite,           "--candidates", candidates.string(),
        "--out",          results.string(), "--best-effort", "--budget-s",   budget};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  finished run(std::vector<std::string> words) {
    return run_to_end(std::move(words), folder.path() / ("log" + std::to_string(logs++)));
  }
  void refused(const std::vector<std::string>& words, std::initializer_list<std::string_view> parts,
               int code = 2) {
    const finished end = run(words);
    CAPTURE(end.output);
    CHECK(end.code == code);
    for (const std::string_view part : parts)
      CHECK(contains(end.output, part));
  }
  [[nodiscard]] std::vector<std::string> lines() const { return whole_lines_of(results); }
};

/// The plain kernels of the suite, each twice, and one of each kind of failure.
void write_kernels(const bench_fixture& f) {
  const auto suite = env::load_suite(f.suite);
  REQUIRE(suite.has_value());
  for (std::size_t i = 0; i < 4; ++i) {
    const env::task& task = suite->members[i].task;
    f.write("candidates/" + task.name + ".plain.cpp", env::tensors_of(task).plain);
    f.write("candidates/again/" + task.name + ".plain.cpp",
            "// again\n" + env::tensors_of(task).plain);
  }
  f.write("candidates/" + suite->members[0].task.name + ".broken.cpp", "int kernel(;\n");
  // All of the plain kernel up to the body of `kernel`, which does nothing.
  std::string empty = env::tensors_of(suite->members[0].task).plain;
  empty = empty.substr(0, empty.find('{', empty.find("void kernel("))) + "{}\n";
  f.write("candidates/" + suite->members[0].task.name + ".empty.cpp", empty);
}

constexpr std::size_t kernels = 10;

}  // namespace

TEST_CASE("quern bench refuses what means nothing before it makes anything") {
  bench_fixture f;
  f.refused(f.command(), {"candidates"});
  REQUIRE(base::make_folders(f.candidates));
  f.refused(f.command(), {"holds no candidate"}, 4);
  f.write("candidates/softmax.0.cpp", "x");
  f.refused(f.command(), {"softmax.0.cpp", "no task 'softmax'"});
  f.candidates = f.folder.path() / "c.jsonl";
  f.write("c.jsonl",
          "{\"task\": \"tanh_transpose\", \"code\": \"\", \"id\": 1}\n"
          "{\"task\": \"tanh_transpose\", \"code\": \"\", \"id\": 1}\n");
  f.refused(f.command(), {"c.jsonl line 2", "'1'", "line 1"});
  f.write("c.jsonl", "{\"task\": \"tanh_transpose\", \"code\": \"\"}\n");
  f.refused(f.command({"--gpus", "0"}), {"--gpus", "lane cpp"});
  f.refused(f.command({"--gpus", "x"}), {"--gpus"});
  f.refused(f.command({"--core", "4000"}), {"core 4000"});
  f.refused(f.command({"--compilers", "-1"}), {"--compilers"});
  f.refused(f.command({"--pass-at-k", "0"}), {"--pass-at-k"});
  f.refused(f.command({"--timeout", "0"}), {"--timeout", "0 is outside 0.1"});
  f.refused(f.command({"--degenerate", "nosuch"}), {"--degenerate", "no task 'nosuch'"});
  const std::string out = (f.folder.path() / "kernelbench").string();
  f.refused(f.command({"--write-kernelbench", out}),
            {"--write-kernelbench", "suite cpu_quick has no place in KernelBench"});
  f.refused(f.command({"--kernelbench-baselines", out}),
            {"--kernelbench-baselines", "suite cpu_quick has no place in KernelBench"});
  CHECK_FALSE(fs::exists(out));
  for (const char* value : {"nan", "0", "1e9"})
    f.refused({program("quern"), "bench", f.suite, "--candidates", "c", "--budget-s", value},
              {"--budget-s"});
  f.suite = "/nonexistent";
  f.refused(f.command(), {"/nonexistent"});
  f.suite = "nosuch";
  f.refused(f.command(), {"'nosuch'", "shipped are", "cpu_quick", "cuda_quick"});
  CHECK_FALSE(fs::exists(f.results.parent_path()));
}

TEST_CASE("quern bench survives a kill in the middle: nothing lost, nothing judged twice") {
  bench_fixture f;
  write_kernels(f);
  {
    auto child = base::subprocess::start({.argv = f.command(), .log = f.folder.path() / "killed"});
    REQUIRE(child);
    using base::operator""_s;
    REQUIRE(wait_until(300_s, [&] { return f.lines().size() >= 4; }));
    child->send_signal(SIGKILL);
    REQUIRE(child->wait(60_s));
  }
  const auto before = f.lines();
  REQUIRE(before.size() < kernels + 1);
  // A kill may tear a line; this one does.
  const std::string whole = base::read_file(f.results).value();
  f.write("out/results.jsonl", whole + before.back().substr(0, 40));
  CHECK_FALSE(fs::exists(f.results.parent_path() / "report.json"));

  const finished end = f.run(f.command({"--tasks"}));
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, std::to_string(before.size() - 1) + " verdicts are in "));
  const auto after = f.lines();
  REQUIRE(after.size() == kernels + 1);
  CHECK(std::equal(before.begin(), before.end(), after.begin()));

  const auto report =
      base::parse_json(base::read_file(f.results.parent_path() / "report.json").value_or(""));
  REQUIRE(report.has_value());
  CHECK((*report)["candidates"] == kernels);
  CHECK((*report)["without_verdict"] == 0);
  CHECK((*report)["verdicts"].value("compile_error", 0) == 1);
  CHECK((*report)["verdicts"].value("wrong_value", 0) == 1);
  CHECK((*report)["groups"][0]["tasks_without_candidates"] == 12);
  // The first task has four candidates, two of them right; three tasks have two each.
  const auto& scores = (*report)["kernelbench"];
  CHECK(scores["tables"][0]["rows"].size() == 2);
  CHECK(scores["tables"][0]["rows"][1]["tasks"] == 16);
  CHECK(scores["tables"][0]["rows"][1]["compiled"] == 4);
  CHECK(scores["pass_at_k"].size() == 1);
  CHECK(contains(end.output, "KernelBench's figures"));
  CHECK(contains(end.output, "16 tasks: pass@1 "));
  const std::string page = base::read_file(f.results.parent_path() / "report.html").value_or("");
  CHECK(contains(page, "</html>"));

  // A third run has nothing to judge and says the same.
  const finished again = f.run(f.command({"--tasks"}));
  CHECK(again.code == 0);
  CHECK(f.lines() == after);
  CHECK(contains(again.output, "10 candidates"));

  const std::string kept = base::read_file(f.results).value();
  f.budget = "0.2";
  f.refused(f.command(), {"results.jsonl", "another budget"});
  f.budget = "0.1";
  f.write("candidates/abs_smooth_shift.broken.cpp", "int kernel();\n");
  f.refused(f.command(), {"'abs_smooth_shift.broken.cpp'", "another source"});
  f.suite = (source_dir() / "env/suites/cpu").string();
  f.candidates = f.folder.path() / "c.jsonl";
  f.write("c.jsonl", "{\"task\": \"transpose\", \"code\": \"\"}\n");
  f.refused(f.command(), {"another suite", "'cpu_quick'", "'cpu'"});
  CHECK(base::read_file(f.results).value() == kept);
}

TEST_CASE("Ctrl-C pauses quern bench") {
  bench_fixture f;
  write_kernels(f);
  auto child = base::subprocess::start({.argv = f.command(), .log = f.folder.path() / "paused"});
  REQUIRE(child);
  using base::operator""_s;
  REQUIRE(wait_until(300_s, [&] { return f.lines().size() >= 2; }));
  child->send_signal(SIGINT);
  const auto end = child->wait(120_s);
  REQUIRE(end);
  CHECK(end->code == 3);
  const std::size_t there = f.lines().size();
  CHECK(there < kernels + 1);
  CHECK(contains(base::read_file(f.folder.path() / "paused").value(), "the same command goes on"));
}
