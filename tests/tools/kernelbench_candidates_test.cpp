// KernelBench's folder of candidates: names, places, samples, and what a killed run goes on with.
#include "base/file.hpp"
#include "kernelbench_support.hpp"
#include "tools/bench/kernelbench_names.hpp"
#include "tools/bench/resume.hpp"

using namespace quern;
using test::contains;

namespace {

struct run_folder {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  env::suite suite = test::placed_suite();

  void write(const std::string& name, const std::string& text) const {
    const auto path = folder.path() / name;
    REQUIRE(base::make_folders(path.parent_path()));
    REQUIRE(base::write_file_atomic(path, text));
  }
  [[nodiscard]] std::string sample(int problem, int sample, int level = 1) const {
    return "level_" + std::to_string(level) + "_problem_" + std::to_string(problem) + "_sample_" +
           std::to_string(sample) + "_kernel.py";
  }
  [[nodiscard]] auto read(tools::skipped_candidates* skipped = nullptr) const {
    return tools::read_candidates(folder.path(), suite, skipped);
  }
  void refused(std::initializer_list<std::string_view> parts) const {
    const auto found = read();
    REQUIRE_FALSE(found.has_value());
    CAPTURE(found.error().message);
    CHECK(found.error().code == base::errc::invalid_argument);
    for (const std::string_view part : parts)
      CHECK(contains(found.error().message, part));
  }
};

}  // namespace

TEST_CASE("names of KernelBench are read, and others are not") {
  const auto good = tools::parse_kernelbench_name("level_1_problem_23_sample_0_kernel.py");
  REQUIRE(good.has_value());
  CHECK(*good == tools::kernelbench_sample{1, 23, 0});
  CHECK(tools::parse_kernelbench_name("level_4_problem_0_sample_999999999_kernel.py").has_value());
  for (const char* bad :
       {"level_1_problem_23_sample_0_kernel.cu", "level_1_problem_23_sample_0_kernel.py ",
        "level_0_problem_1_sample_0_kernel.py", "level_1_problem_01_sample_0_kernel.py",
        "level_1_problem_1_sample_00_kernel.py", "level_1_problem_1_sample_+1_kernel.py",
        "level_1_problem_1_sample_-1_kernel.py", "level_1_problem_1_sample__kernel.py",
        "level_1_problem_x_sample_0_kernel.py", "level_1_problem_1_kernel.py",
        "level_1_problem_1_sample_1000000000_kernel.py",
        "level_99999999999999999999_problem_1_"
        "sample_0_kernel.py",
        "Level_1_problem_1_sample_0_kernel.py", ""}) {
    CAPTURE(bad);
    const auto found = tools::parse_kernelbench_name(bad);
    REQUIRE_FALSE(found.has_value());
    CHECK(contains(found.error().message, "level_L_problem_P_sample_S_kernel.py"));
  }
  CHECK(tools::is_kernelbench_name("level_1_problem_x_sample_0_kernel.py"));
  CHECK_FALSE(tools::is_kernelbench_name("level_up_kernel.py"));
  CHECK_FALSE(tools::is_kernelbench_name("level_1_problem_1_sample_0_prompt.txt"));
}

TEST_CASE("a run's folder: several samples a problem, by the places of the tasks") {
  const run_folder f;
  f.write(f.sample(2, 1), "two, one");
  f.write(f.sample(2, 0), "two, zero");
  f.write(f.sample(10, 0), "ten, zero");
  f.write("level_1_problem_2_sample_0_prompt.txt", "a prompt");
  f.write("generation_config.yaml", "x: 1");
  f.write("eval_results.json", "{}");
  const auto found = f.read();
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  REQUIRE(found->size() == 3);
  CHECK((*found)[0].task == "t_ten");
  CHECK((*found)[1].task == "t_two");
  CHECK((*found)[1].source == "two, zero");
  CHECK((*found)[1].sample == 0);
  CHECK((*found)[1].id == f.sample(2, 0));
  CHECK((*found)[2].sample == 1);
  CHECK((*found)[2].member == 2);
}

TEST_CASE("unknown problems are refused, or left out where that is asked for") {
  const run_folder f;
  f.write(f.sample(2, 0), "x");
  f.write(f.sample(77, 0), "x");
  f.write(f.sample(77, 1), "x");
  f.write(f.sample(2, 0, 3), "x");
  f.refused({f.sample(77, 0), "no task at level 1 problem 77", "--skip-unknown"});
  tools::skipped_candidates skipped;
  const auto found = f.read(&skipped);
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  CHECK(found->size() == 1);
  CHECK(skipped.candidates == 3);
  CHECK(skipped.tasks == std::set<std::string>{"level 1 problem 77", "level 3 problem 2"});
}

TEST_CASE("a suite without places says so") {
  run_folder f;
  f.write(f.sample(2, 0), "x");
  f.suite = test::quick_suite();
  f.refused({"suite cpu_quick have no place in KernelBench", "--skip-unknown"});
}

TEST_CASE("what could mean two things is refused") {
  run_folder f;
  f.write("a/" + f.sample(2, 0), "x");
  f.write("b/" + f.sample(2, 0), "y");
  f.refused({"b/" + f.sample(2, 0), "a sample 0 of level 1 problem 2 already", "a/", "one run"});
  f.suite.members[0].place = f.suite.members[2].place;
  f.refused({"tasks t_ten and t_two at level 1 problem 2"});
}

TEST_CASE("unreadable names are refused, not left out") {
  const run_folder f;
  f.write("level_1_problem_two_sample_0_kernel.py", "x");
  f.refused({"level_1_problem_two_sample_0_kernel.py", "rename the file"});
  tools::skipped_candidates skipped;
  CHECK_FALSE(f.read(&skipped).has_value());
}

TEST_CASE("a killed run goes on with the samples of a problem that are not judged") {
  const run_folder f;
  for (const int sample : {0, 1, 2})
    f.write(f.sample(2, sample), "source " + std::to_string(sample));
  const auto candidates = f.read().value();
  const auto path = f.folder.path() / "results.jsonl";
  const tools::bench_header header = test::made_header();
  {
    auto file = tools::results_file::open(path, header).value();
    auto first =
        test::made_result(candidates[1].task, candidates[1].id, env::verdict_kind::wrong_value);
    first.source = candidates[1].hash;
    REQUIRE(file.append(first));
  }
  const auto file = tools::results_file::open(path, header).value();
  const auto earlier = tools::matching_results(file.earlier(), candidates, path.string());
  REQUIRE_MESSAGE(earlier.has_value(), earlier.error().message);
  CHECK(earlier->size() == 1);
  CHECK(tools::unjudged(candidates, *earlier) == std::vector<std::size_t>{0, 2});
  // Another text under a number that was judged is no answer to the same question.
  f.write(f.sample(2, 1), "another source");
  const auto changed = tools::matching_results(file.earlier(), f.read().value(), path.string());
  REQUIRE_FALSE(changed.has_value());
  CHECK(contains(changed.error().message, f.sample(2, 1)));
  CHECK(contains(changed.error().message, "another source"));
}
