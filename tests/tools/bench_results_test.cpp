// The file of results: whole after any kill, and never mixed.
#include "base/file.hpp"
#include "tools/bench/results.hpp"
#include "tools/bench_support.hpp"

using namespace quern;
using env::verdict_kind;
using test::made_header;
using test::made_result;
using tools::results_file;

namespace {

struct results_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  std::filesystem::path path = folder.path() / "results.jsonl";

  [[nodiscard]] std::string text() const { return base::read_file(path).value(); }
  void write(const std::string& content) const { REQUIRE(base::write_file_atomic(path, content)); }
  /// Three results; the text of the file.
  std::string fill() const {
    auto file = results_file::open(path, made_header());
    REQUIRE_MESSAGE(file.has_value(), file.error().message);
    REQUIRE(file->append(made_result("abs_smooth_shift", "a", verdict_kind::ok, 150)));
    REQUIRE(file->append(made_result("abs_smooth_shift", "b", verdict_kind::compile_error)));
    REQUIRE(file->append(made_result("times_row_softmax", "a", verdict_kind::hack)));
    return text();
  }
  void refuse(const tools::bench_header& header,
              std::initializer_list<std::string_view> parts) const {
    const std::string before = text();
    const auto file = results_file::open(path, header);
    REQUIRE_FALSE(file.has_value());
    CAPTURE(file.error().message);
    for (const std::string_view part : parts)
      CHECK(test::contains(file.error().message, part));
    CHECK(text() == before);
  }
};

}  // namespace

TEST_CASE("what was appended is there again") {
  const results_fixture f;
  f.fill();
  const auto file = results_file::open(f.path, made_header());
  REQUIRE_MESSAGE(file.has_value(), file.error().message);
  REQUIRE(file->earlier().size() == 3);
  CHECK(file->earlier()[0] == made_result("abs_smooth_shift", "a", verdict_kind::ok, 150));
  CHECK(file->earlier()[2] == made_result("times_row_softmax", "a", verdict_kind::hack));
}

TEST_CASE("what is kept: verdicts about candidates, and that one was left out") {
  auto left_out = made_result("abs_smooth_shift", "c", verdict_kind::infra_error);
  CHECK_FALSE(tools::is_final(left_out.verdict));
  CHECK_FALSE(tools::is_left_out(left_out.verdict));
  left_out.verdict.reason = tools::left_out_reason;
  left_out.verdict.detail = "left out: a device went into quarantine 2 times";
  CHECK(tools::is_final(left_out.verdict));
  CHECK(tools::is_left_out(left_out.verdict));
  CHECK_FALSE(tools::is_final(made_result("t", "a", verdict_kind::invalid_reference).verdict));
  for (const auto kind : {verdict_kind::ok, verdict_kind::noisy, verdict_kind::timeout}) {
    auto other = made_result("t", "a", kind, 100).verdict;
    CHECK(tools::is_final(other));
    other.reason = tools::left_out_reason;
    CHECK_FALSE(tools::is_left_out(other));
  }
  const results_fixture f;
  f.fill();
  {
    auto file = results_file::open(f.path, made_header());
    REQUIRE_MESSAGE(file.has_value(), file.error().message);
    REQUIRE(file->append(left_out));
  }
  const auto file = results_file::open(f.path, made_header());
  REQUIRE_MESSAGE(file.has_value(), file.error().message);
  REQUIRE(file->earlier().size() == 4);
  CHECK(file->earlier()[3] == left_out);
}

TEST_CASE("a file cut at any byte is repaired, and goes on whole") {
  const results_fixture f;
  const std::string whole = f.fill();
  std::size_t lines = 0;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    if (size > 0 && whole[size - 1] == '\n') ++lines;
    f.write(whole.substr(0, size));
    auto file = results_file::open(f.path, made_header());
    CAPTURE(size);
    REQUIRE_MESSAGE(file.has_value(), file.error().message);
    REQUIRE(file->earlier().size() == (lines == 0 ? 0 : lines - 1));
    REQUIRE(file->append(made_result("tanh_transpose", "new", verdict_kind::oom)));
    const std::string now = f.text();
    const std::size_t end = whole.rfind('\n', size == 0 ? 0 : size - 1);
    if (lines > 0) REQUIRE(now.starts_with(whole.substr(0, end + 1)));
    file = tl::make_unexpected(base::error{});
    REQUIRE(results_file::open(f.path, made_header())->earlier().size() ==
            (lines == 0 ? 1 : lines));
  }
  CHECK(lines == 4);
}

TEST_CASE("results of another suite, protocol, device or environment are refused, untouched") {
  const results_fixture f;
  f.fill();
  auto other = made_header();
  other.suite = "cpu";
  // A name alone is not another suite: the same folder may have been moved.
  CHECK(results_file::open(f.path, other).has_value());
  other.suite_hash = "0";
  f.refuse(other, {"another suite", "'cpu_quick'", "'cpu'", "--out", "results.jsonl"});
  other.suite = "cpu_quick";
  f.refuse(other, {"another state of the suite"});
  other = made_header();
  other.protocol = "paired/2";
  f.refuse(other, {"another protocol", "'paired/1'", "'paired/2'"});
  other = made_header();
  other.device_class = "cpp-sse2";
  f.refuse(other, {"another device class", "'cpp-avx2'", "'cpp-sse2'"});
  other = made_header();
  other.environment = "e2";
  f.refuse(other, {"another environment", "'e1'", "'e2'"});
  other = made_header();
  other.timeout_ms = 9000;
  f.refuse(other, {"--timeout", "'0'", "'9000'"});
  CHECK(tools::header_from_json(base::json(tools::to_json(other))).value() == other);
  other = test::made_header();
  other.budget_ms = 100;
  f.refuse(other, {"budget", "'500'", "'100'"});
}

TEST_CASE("what a file refuses is told before devices are known, and nothing is made") {
  const results_fixture f;
  auto header = made_header();
  header.device_class = header.environment = "";
  const auto none = tools::peek_results(f.path, header);
  REQUIRE(none.has_value());
  CHECK(none->empty());
  CHECK_FALSE(std::filesystem::exists(f.path));
  const std::string before = f.fill();
  const auto there = tools::peek_results(f.path, header);
  REQUIRE_MESSAGE(there.has_value(), there.error().message);
  CHECK(there->size() == 3);
  header.budget_ms += 1;
  const auto other = tools::peek_results(f.path, header);
  REQUIRE_FALSE(other.has_value());
  CHECK(test::contains(other.error().message, "another budget"));
  header = made_header();
  header.environment = "of another compiler";
  CHECK_FALSE(tools::peek_results(f.path, header).has_value());
  {
    const auto held = results_file::open(f.path, made_header());
    REQUIRE(held.has_value());
    const auto busy = tools::peek_results(f.path, made_header());
    REQUIRE_FALSE(busy.has_value());
    CHECK(test::contains(busy.error().message, "another quern bench"));
  }
  CHECK(f.text() == before);
}

TEST_CASE("a file of somebody else is refused, untouched") {
  const results_fixture f;
  for (const char* text : {"my notes", "my notes\n", "{\"a\": 1}\n", "[1]\n", "{\n", "\n",
                           "{\"quern_bench\": 2}\n", "{\"quern_bench\": 1}\n"}) {
    CAPTURE(text);
    f.write(text);
    f.refuse(made_header(), {"results.jsonl", "name another one with --out"});
  }
}

TEST_CASE("lines that cannot be are named by their number") {
  const results_fixture f;
  const std::string whole = f.fill();
  const std::string last = whole.substr(whole.rfind('\n', whole.size() - 2) + 1);
  f.write(whole + last);
  f.refuse(made_header(), {"line 5", "second verdict", "'a'", "times_row_softmax", "--out"});
  f.write(whole + "{}\n");
  f.refuse(made_header(), {"line 5", "task"});
  f.write(whole + "{\"to\n" + last);
  f.refuse(made_header(), {"line 5"});
  std::string foreign = last;
  foreign.replace(foreign.find("\"e1\""), 4, "\"e9\"");
  foreign.replace(foreign.find("\"a\""), 3, "\"z\"");
  f.write(whole + foreign);
  f.refuse(made_header(), {"line 5", "'e9'"});
}

TEST_CASE("one process a file") {
  const results_fixture f;
  const auto first = results_file::open(f.path, made_header());
  REQUIRE(first.has_value());
  const auto second = results_file::open(f.path, made_header());
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == base::errc::conflict);
}

TEST_CASE("the hash of a suite knows its tasks and rules") {
  env::suite suite = test::quick_suite();
  const std::string before = tools::suite_hash(suite);
  suite.name = "other";
  CHECK(tools::suite_hash(suite) == before);
  suite.recheck_above_e2 += 1;
  const std::string rechecked = tools::suite_hash(suite);
  CHECK(rechecked != before);
  suite.policy.library_calls = true;
  CHECK(tools::suite_hash(suite) != rechecked);
  suite = test::quick_suite();
  suite.members.pop_back();
  CHECK(tools::suite_hash(suite) != before);
}
