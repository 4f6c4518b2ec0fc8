// Event files of TensorBoard: the bytes, what tears of them, and what TensorBoard itself reads.
#include "storage/event_file.hpp"

#include <fstream>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/subprocess.hpp"
#include "ledger_support.hpp"
#include "storage/metrics_writer.hpp"
#include "support/tensorboard.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
using base::operator""_s;
namespace fs = std::filesystem;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

/// Masked checksum at the end of a record, as it stands there.
std::uint32_t checksum_in(std::string_view record) {
  base::byte_reader tail(record.substr(record.size() - 4));
  return must(tail.u32());
}

/// The whole payloads of a file, up to where it is torn or damaged.
std::vector<std::string> payloads(std::string_view file) {
  std::vector<std::string> found;
  while (file.size() >= 16) {
    base::byte_reader head(file);
    const std::uint64_t length = must(head.u64());
    if (length > file.size() - 16) break;
    const std::string_view payload = file.substr(12, length);
    const std::string expected = tf_record(payload);
    if (file.substr(0, expected.size()) != expected) break;
    found.emplace_back(payload);
    file.remove_prefix(expected.size());
  }
  return found;
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

/// Series by what TensorBoard reads: pairs of step and value.
base::json read_by_tensorboard(const fs::path& python, const fs::path& folder) {
  const fs::path log = folder.parent_path() / "read.json";
  auto child = base::subprocess::start(
      {.argv = {python.string(), (source_dir() / "tests/storage/read_event_files.py").string(),
                folder.string()},
       .log = log});
  REQUIRE(child);
  const auto end = child->wait(120_s);
  REQUIRE(end);
  const std::string said = must(base::read_file(log));
  CAPTURE(said);
  REQUIRE(end->code == 0);
  // Libraries may have said something before.
  const auto last = said.rfind('{', said.find("[["));
  return must(base::parse_json(std::string_view(said).substr(last)));
}

}  // namespace

TEST_CASE("checksums are those of RFC 3720, and masked as TFRecord wants them") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
  CHECK(checksum_in(tf_record("123456789")) == 0xc78ab0e5U);
}

TEST_CASE("events have the bytes that protobuf writes of them") {
  // SerializeToString of tensorboard's Event with these fields.
  CHECK(hex(version_event(1.5)) == "09000000000000f83f1a0d627261696e2e4576656e743a32");
  CHECK(hex(restart_event(1.5, 3)) == "09000000000000f83f10033a020801");
  const std::vector<series_value> values{{"a/b", 0.5}};
  const std::string event = scalars_event(1.5, 3, values);
  CHECK(hex(event) == "09000000000000f83f10032a0c0a0a0a03612f62150000003f");
  CHECK(checksum_in(tf_record(event)) == 0xbca83144U);
}

TEST_CASE("every number of a line is a series, by the keys that lead to it") {
  const auto line = base::ordered_json::parse(
      R"({"step": 3, "ok": null, "batch": {"ok": 0.5, "verdicts": {"noisy": 2}}, "skipped": true,
          "held_back": {"by": [1, 2], "text": "nobody"}, "left_out": 0})");
  CHECK(numbers_of(line) ==
        std::vector<series_value>{
            {"step", 3}, {"batch/ok", 0.5}, {"batch/verdicts/noisy", 2}, {"left_out", 0}});
  CHECK(numbers_of(base::ordered_json::array({1, 2})).empty());
}

TEST_CASE("a file torn at any byte has all records before the tear, a flipped byte ends it there") {
  const auto folder = must(base::temp_folder::make("events"));
  base::random_stream random(7, "event files");
  event_writer writer(folder.path() / "tb");
  for (std::int64_t step = 1; step <= 4; ++step) {
    std::vector<series_value> values;
    for (std::uint64_t i = 0; i <= random.below(5); ++i)
      values.push_back({std::string(random.below(200), 'n'), random.uniform() * 1e30});
    must(writer.append(step, values, 1e9));
  }
  const auto files = files_of(folder.path() / "tb");
  REQUIRE(files.size() == 1);
  const std::string whole = must(base::read_file(files[0]));
  // The version, the restart of the first step, and the steps.
  const auto all = payloads(whole);
  REQUIRE(all.size() == 6);
  std::size_t end = 0, complete = 0;
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    if (cut == end + all[complete].size() + 16) {
      end = cut;
      ++complete;
    }
    CHECK(payloads(whole.substr(0, cut)).size() == complete);
    std::string flipped = whole;
    flipped[cut] = static_cast<char>(flipped[cut] ^ 4);
    CHECK(payloads(flipped).size() == complete);
  }
}

TEST_CASE(
    "a run that goes on has one more file, whose name sorts behind, and no step counts twice") {
  const auto folder = must(base::temp_folder::make("events"));
  const fs::path tb = folder.path() / "tb";
  const std::vector<series_value> values{{"loss", 1}};
  {
    event_writer writer(tb);
    CHECK_FALSE(fs::exists(tb));
    for (const std::int64_t step : {1, 2, 3})
      must(writer.append(step, values, 10));
    // The learner was lost: step 3 is taken again.
    must(writer.append(3, values, 11));
    must(writer.sync());
  }
  // Of others: is left alone.
  must(base::write_file_atomic(tb / "events.out.tfevents.0000000007.other", "x"));
  event_writer next(tb);
  must(next.append(2, values, 20));
  const auto files = files_of(tb);
  REQUIRE(files.size() == 3);
  CHECK(files[0].filename() == "events.out.tfevents.0000000001.quern");
  CHECK(files[2].filename() == "events.out.tfevents.0000000008.quern");
  const auto first = payloads(must(base::read_file(files[0])));
  REQUIRE(first.size() == 7);
  CHECK(first[1] == restart_event(10, 1));
  CHECK(first[5] == restart_event(11, 3));
  const auto second = payloads(must(base::read_file(files[2])));
  REQUIRE(second.size() == 3);
  CHECK(second[0] == version_event(20));
  CHECK(second[1] == restart_event(20, 2));
  CHECK(second[2] == scalars_event(20, 2, values));
}

TEST_CASE("metrics.jsonl goes on where event files cannot be written") {
  const auto folder = must(base::temp_folder::make("events"));
  const run_paths paths{folder.path()};
  must(base::write_file_atomic(paths.tensorboard(), "not a folder"));
  auto writer = must(metrics_writer::open(paths));
  must(writer.append({{"step", 1}, {"loss", 2.0}}));
  must(writer.append({{"step", 2}, {"loss", 1.0}}));
  must(writer.sync());
  std::int64_t lines = 0;
  must(read_jsonl(paths.metrics(), [&](const base::json&) -> base::status {
    ++lines;
    return {};
  }));
  CHECK(lines == 2);
}

TEST_CASE("TensorBoard reads a run that was killed and went on, each step once") {
  const auto python = python_with_tensorboard();
  if (!python) return skip("no .venv-tensorboard, which tools/setup.sh --tensorboard makes");
  const auto folder = must(base::temp_folder::make("events"));
  const run_paths paths{folder.path()};
  const auto line = [](std::int64_t step, double loss) {
    return base::ordered_json{
        {"step", step}, {"learner", {{"loss", loss}}}, {"dropped", {{"stale", step}}}};
  };
  {
    auto writer = must(metrics_writer::open(paths));
    for (std::int64_t step = 1; step <= 5; ++step)
      must(writer.append(line(step, 10.0 + static_cast<double>(step))));
    // Within one life: steps 4 and 5 once more.
    must(writer.append(line(4, 0.5)));
    must(writer.append(line(5, 0.25)));
  }
  // Killed while it wrote.
  std::ofstream(files_of(paths.tensorboard())[0], std::ios::app) << "\x10\0\0torn";
  {
    auto writer = must(metrics_writer::open(paths));
    for (std::int64_t step = 5; step <= 7; ++step)
      must(writer.append(line(step, 20.0 + static_cast<double>(step))));
  }
  {
    // Stage search counts evaluations, and goes on above what it has spent.
    must(base::make_folders(folder.path() / "search"));
    auto writer = must(metrics_writer::open({folder.path() / "search"}));
    must(writer.append({{"spent", 8}, {"judged", 8}}));
  }
  const auto read = read_by_tensorboard(*python, paths.tensorboard());
  CHECK(read["learner/loss"] == base::json::parse("[[1, 11.0], [2, 12.0], [3, 13.0], [4, 0.5], "
                                                  "[5, 25.0], [6, 26.0], [7, 27.0]]"));
  CHECK(read["dropped/stale"].size() == 7);
  CHECK(read.size() == 2);
  const auto search = read_by_tensorboard(*python, folder.path() / "search/tb");
  CHECK(search["judged"] == base::json::parse("[[8, 8.0]]"));
}

}  // namespace quern::test
