// Which files and lines are candidates, and which are refused with their place and value.
#include "base/file.hpp"
#include "tools/bench/candidates.hpp"
#include "tools/bench_support.hpp"

using namespace quern;
using tools::bench_candidate;

namespace {

void refuse_lines(std::string_view text, std::initializer_list<std::string_view> parts) {
  const auto found = tools::parse_candidates(text, "c.jsonl", test::quick_suite());
  CAPTURE(text);
  REQUIRE_FALSE(found.has_value());
  CAPTURE(found.error().message);
  CHECK(found.error().code == base::errc::invalid_argument);
  for (const std::string_view part : parts)
    CHECK(test::contains(found.error().message, part));
}

struct candidate_folder {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  void write(const std::string& name, const std::string& text) const {
    const auto path = folder.path() / name;
    REQUIRE(base::make_folders(path.parent_path()));
    REQUIRE(base::write_file_atomic(path, text));
  }
  [[nodiscard]] auto read() const {
    return tools::read_candidates(folder.path(), test::quick_suite());
  }
};

}  // namespace

TEST_CASE("lines become candidates in the suite's order, with ids of their own") {
  const auto found = tools::parse_candidates(
      "{\"task\": \"times_row_softmax\", \"source\": \"A\", \"note\": [1]}\n"
      "\n"
      "{\"task\": \"abs_smooth_shift\", \"code\": \"B\", \"id\": \"b\"}\r\n"
      "{\"task\": \"abs_smooth_shift\", \"code\": \"C\", \"id\": 7}\n"
      "{\"task\": \"times_row_softmax\", \"source\": \"A\", \"id\": null}",
      "c.jsonl", test::quick_suite());
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  REQUIRE(found->size() == 4);
  CHECK((*found)[0].id == "b");
  CHECK((*found)[0].source == "B");
  CHECK((*found)[0].origin == "c.jsonl line 3");
  CHECK(test::quick_suite().members[(*found)[0].member].task.name == "abs_smooth_shift");
  CHECK((*found)[1].id == "7");
  // The same source twice is two candidates: who samples a kernel twice has done so.
  CHECK((*found)[2].id == "#1");
  CHECK((*found)[3].id == "#5");
  CHECK((*found)[2].hash == (*found)[3].hash);
  CHECK((*found)[0].hash != (*found)[1].hash);
}

TEST_CASE("an id may stand at two tasks, but not twice at one") {
  const std::string first = R"({"task": "abs_smooth_shift", "id": "x", "code": "1"})";
  const std::string other = R"({"task": "times_row_softmax", "id": "x", "code": "1"})";
  CHECK(tools::parse_candidates(first + "\n" + other, "c", test::quick_suite()).has_value());
  refuse_lines(first + "\n" + other + "\n" + first + "\n",
               {"c.jsonl line 3", "'x'", "abs_smooth_shift", "line 1"});
}

TEST_CASE("lines that mean nothing are refused with their number and value") {
  const std::string good = "{\"task\": \"abs_smooth_shift\", \"code\": \"1\"}\n";
  refuse_lines(good + R"({"task": "abs_smoth_shift", "code": "1"})",
               {"line 2", "'abs_smoth_shift'", "did you mean 'abs_smooth_shift'"});
  refuse_lines(good + "{", {"line 2"});
  refuse_lines(good + "[]", {"line 2", "object"});
  refuse_lines(R"({"code": "1"})", {"line 1", "task"});
  refuse_lines(R"({"task": "abs_smooth_shift"})", {"line 1", "neither 'source' nor 'code'"});
  refuse_lines(R"({"task": "abs_smooth_shift", "code": "1", "source": "1"})", {"both"});
  refuse_lines(R"({"task": "abs_smooth_shift", "code": 1})", {"line 1", "code"});
  refuse_lines(R"({"task": "abs_smooth_shift", "code": "1", "id": 1.5})", {"'id' is 1.5"});
  refuse_lines(R"({"task": "abs_smooth_shift", "code": "1", "id": ""})", {"0 bytes"});
  refuse_lines(
      R"({"task": "abs_smooth_shift", "id": ")" + std::string(600, 'x') + R"(", "code": "1"})",
      {"600 bytes", "512"});
  refuse_lines(R"({"task": "abs_smooth_shift", "code": ")" + std::string(1100000, 'x') + "\"}",
               {"1100000 bytes", "1048576"});
}

TEST_CASE("a folder: endings, folders below, ids by path") {
  const candidate_folder f;
  f.write("b/times_row_softmax.0.cpp", "B0");
  f.write("a/times_row_softmax.0.cpp", "A0");
  f.write("abs_smooth_shift.cpp", "plain");
  f.write("abs_smooth_shift.v2.best.cu", "cuda");
  f.write("notes.txt", "not a candidate");
  f.write(".hidden.cpp", "not a candidate");
  f.write(".git/times_row_softmax.cpp", "not a candidate");
  const auto found = f.read();
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  std::vector<std::string> ids;
  for (const bench_candidate& one : *found)
    ids.push_back(one.id);
  CHECK(ids == std::vector<std::string>{"abs_smooth_shift.cpp", "abs_smooth_shift.v2.best.cu",
                                        "a/times_row_softmax.0.cpp", "b/times_row_softmax.0.cpp"});
  CHECK((*found)[1].task == "abs_smooth_shift");
  CHECK((*found)[3].source == "B0");
}

TEST_CASE("a folder with a file of no task is refused by its name") {
  const candidate_folder f;
  f.write("below/softmax.0.cpp", "x");
  const auto found = f.read();
  REQUIRE_FALSE(found.has_value());
  CHECK(test::contains(found.error().message, "below/softmax.0.cpp"));
  CHECK(test::contains(found.error().message, "'softmax'"));
}

TEST_CASE("candidates of other suites are left out and counted only where that is asked for") {
  const candidate_folder f;
  f.write("times_row_softmax.0.cpp", "A");
  f.write("softmax.0.cpp", "x");
  f.write("softmax.1.cpp", "y");
  f.write("attention.cu", "z");
  const auto refused = f.read();
  REQUIRE_FALSE(refused.has_value());
  CHECK(test::contains(refused.error().message, "--skip-unknown"));
  tools::skipped_candidates skipped;
  const auto found = tools::read_candidates(f.folder.path(), test::quick_suite(), &skipped);
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  REQUIRE(found->size() == 1);
  CHECK(found->front().task == "times_row_softmax");
  CHECK(skipped.candidates == 3);
  CHECK(skipped.tasks == std::set<std::string>{"attention", "softmax"});
  // Whatever else is wrong is still refused.
  const auto lines = tools::parse_candidates(
      "{\"task\": \"softmax\", \"code\": \"1\"}\n{\"task\": \"times_row_softmax\"}", "c",
      test::quick_suite(), &skipped);
  REQUIRE_FALSE(lines.has_value());
  CHECK(test::contains(lines.error().message, "line 2"));
  CHECK(skipped.candidates == 4);
}

TEST_CASE("what is not there or empty") {
  const auto missing = tools::read_candidates("/nonexistent/c.jsonl", test::quick_suite());
  REQUIRE_FALSE(missing.has_value());
  CHECK(test::contains(missing.error().message, "/nonexistent/c.jsonl"));
  const candidate_folder f;
  CHECK(f.read()->empty());
  CHECK(tools::parse_candidates("\n \n", "c", test::quick_suite())->empty());
}
