// Lines of JSON past torn ends and noise.
#include "storage/jsonl.hpp"

#include <fstream>

#include "base/random.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

base::expected<std::vector<std::int64_t>> numbers(const fs::path& path) {
  std::vector<std::int64_t> found;
  QUERN_CHECK(read_jsonl(path, [&](const base::json& line) -> base::status {
    QUERN_TRY(const std::int64_t n, base::get<std::int64_t>(line, "n"));
    found.push_back(n);
    return {};
  }));
  return found;
}

TEST_CASE("lines come back in order, and appending goes on after a torn end at any byte") {
  const auto folder = must(base::temp_folder::make("jsonl"));
  const fs::path path = folder.path() / "metrics.jsonl";
  {
    auto writer = must(jsonl_writer::open(path));
    for (int n = 0; n < 5; ++n)
      must(writer.append({{"n", n}, {"loss", 0.5}}));
    must(writer.sync());
  }
  const std::string whole = must(base::read_file(path));
  CHECK(must(numbers(path)).size() == 5);
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    CAPTURE(cut);
    std::ofstream(path, std::ios::trunc) << whole.substr(0, cut);
    const auto lines =
        std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut), '\n');
    CHECK(std::ssize(must(numbers(path))) == lines);
    auto writer = must(jsonl_writer::open(path));
    must(writer.append({{"n", 99}}));
    const auto found = must(numbers(path));
    CHECK(std::ssize(found) == lines + 1);
    CHECK(found.back() == 99);
  }
}

TEST_CASE("the last whole line is found at the end, past tears and noise") {
  const auto folder = must(base::temp_folder::make("jsonl"));
  const fs::path path = folder.path() / "metrics.jsonl";
  const auto last = [&](std::string_view text, std::int64_t within = 1 << 20) {
    must(base::write_file_atomic(path, text));
    return must(last_line_of(path, within));
  };
  CHECK(must(last_line_of(path)).is_null());
  CHECK(last("").is_null());
  CHECK(last("{\"n\":1").is_null());
  CHECK(last("\n").is_null());
  CHECK(last("{\"n\":1}\n")["n"] == 1);
  CHECK(last("{\"n\":1}\n{\"n\":2}\n{\"n\":3")["n"] == 2);
  CHECK(last("{\"n\":1}\nnoise\n\n")["n"] == 1);
  CHECK(last("noise\n").is_null());
  // Lines that begin before what is read are not looked at.
  const std::string longer = "{\"n\":1,\"t\":\"" + std::string(100, 'x') + "\"}\n";
  CHECK(last(longer, 64).is_null());
  CHECK(last(longer + "{\"n\":2}\n", 64)["n"] == 2);
  CHECK(last("{\"n\":5}\n" + longer, 1000)["n"] == 1);
  CHECK_FALSE(last_line_of(folder.path()));
}

TEST_CASE("a torn line longer than a page is cut off, too") {
  const auto folder = must(base::temp_folder::make("jsonl"));
  const fs::path path = folder.path() / "metrics.jsonl";
  for (const std::size_t size : {std::size_t{4095}, std::size_t{4096}, std::size_t{20'000}}) {
    must(base::write_file_atomic(path, "{\"n\":1}\n" + std::string(size, 'x')));
    auto writer = must(jsonl_writer::open(path));
    must(writer.append({{"n", 2}}));
    CHECK(must(numbers(path)) == std::vector<std::int64_t>{1, 2});
  }
}

TEST_CASE("a whole line that is not JSON is named") {
  const auto folder = must(base::temp_folder::make("jsonl"));
  const fs::path path = folder.path() / "metrics.jsonl";
  must(base::write_file_atomic(path, "{\"n\":1}\n{\"n\":\n{\"n\":3}\n"));
  const auto failed = numbers(path);
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == base::errc::corrupt);
  CHECK(failed.error().message.find("metrics.jsonl line 2") != std::string::npos);
}

TEST_CASE("where gaps do no harm the lines behind a damaged one are read") {
  const auto folder = must(base::temp_folder::make("jsonl"));
  const fs::path path = folder.path() / "metrics.jsonl";
  const std::string zeros(20, '\0');
  must(base::write_file_atomic(path, "{\"n\":1}\n{\"n\":\n" + zeros + "\n\n{\"n\":3}\n{\"n\":4"));
  std::vector<std::int64_t> found;
  const auto take = [&](const base::json& line) -> base::status {
    found.push_back(line["n"].get<std::int64_t>());
    return {};
  };
  const damaged_lines damaged = must(read_jsonl_past_damage(path, take));
  CHECK(found == std::vector<std::int64_t>{1, 3});
  CHECK(damaged.count == 3);
  CHECK(damaged.first.find("metrics.jsonl line 2") != std::string::npos);
  // What the caller makes of a line still ends it.
  CHECK_FALSE(read_jsonl_past_damage(path, [](const base::json&) -> base::status {
    return base::fail(base::errc::conflict, "enough");
  }));
  CHECK_FALSE(read_jsonl_past_damage(folder.path() / "none", take));
}

TEST_CASE("text with newlines, bad UTF-8 and numbers that JSON lacks stay on one line") {
  const auto folder = must(base::temp_folder::make("jsonl"));
  const fs::path path = folder.path() / "metrics.jsonl";
  auto writer = must(jsonl_writer::open(path));
  must(writer.append({{"n", 1}, {"text", "a\nb\xff"}, {"x", std::nan("")}}));
  must(writer.append({{"n", 2}}));
  CHECK(must(numbers(path)) == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("noise in a file is an error or lines, never a crash") {
  const auto folder = must(base::temp_folder::make("jsonl"));
  const fs::path path = folder.path() / "metrics.jsonl";
  base::random_stream random(5, "jsonl");
  for (int i = 0; i < 150; ++i) {
    std::string noise;
    for (std::uint64_t n = random.below(300); n > 0; --n) {
      noise += "{}[]\":,n1\n\\ue\x80"[random.below(14)];
    }
    std::ofstream(path, std::ios::trunc | std::ios::binary) << noise;
    std::int64_t lines = 0;
    const auto read = read_jsonl(path, [&](const base::json&) -> base::status {
      ++lines;
      return {};
    });
    CHECK(lines <= std::count(noise.begin(), noise.end(), '\n'));
    if (!read) CHECK(read.error().code == base::errc::corrupt);
    auto writer = must(jsonl_writer::open(path));
    must(writer.append({{"n", 1}}));
  }
}

}  // namespace
}  // namespace quern::test
