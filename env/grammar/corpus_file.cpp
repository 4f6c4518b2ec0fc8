// Reading, resuming and appending corpus files.
#include "env/grammar/corpus_file.hpp"

#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace quern::env {

base::json header_value(const base::json& header, std::string_view key) {
  if (const auto said = header.find(key); said != header.end()) return *said;
  // Chosen for corpora that were made before a file said it.
  if (key == "exemplars_shown") return 2;
  if (key == "comparing_share" || key == "wrong_shown_share") return "0";
  if (key == "comparisons_form" && header_value(header, "comparing_share") != "0") return 1;
  return nullptr;
}

namespace {

base::json to_json(const corpus_counts& counts) {
  return {{"task_done", counts.next_task},
          {"tasks", counts.tasks},
          {"skipped", counts.skipped_tasks},
          {"records", counts.records},
          {"wrong", counts.wrong},
          {"unexpected", counts.unexpected},
          {"dropped", counts.dropped},
          {"showing", counts.showing},
          {"comparing", counts.comparing},
          {"best_shown", counts.best_shown},
          {"wrong_shown", counts.wrong_shown}};
}

base::expected<corpus_counts> counts_from_json(const base::json& value) {
  corpus_counts counts;
  const auto take = [&](std::string_view key, std::int64_t& into) -> base::status {
    QUERN_TRY(into, base::get<std::int64_t>(value, key));
    return {};
  };
  QUERN_CHECK(take("task_done", counts.next_task));
  QUERN_CHECK(take("tasks", counts.tasks));
  QUERN_CHECK(take("skipped", counts.skipped_tasks));
  QUERN_CHECK(take("records", counts.records));
  QUERN_CHECK(take("wrong", counts.wrong));
  QUERN_CHECK(take("unexpected", counts.unexpected));
  QUERN_CHECK(take("dropped", counts.dropped));
  // Files that were begun before these were counted say nothing of them.
  if (!value.contains("showing")) return counts;
  QUERN_CHECK(take("showing", counts.showing));
  QUERN_CHECK(take("comparing", counts.comparing));
  QUERN_CHECK(take("best_shown", counts.best_shown));
  if (value.contains("wrong_shown")) QUERN_CHECK(take("wrong_shown", counts.wrong_shown));
  return counts;
}

constexpr std::string_view done_prefix = "{\"task_done\":";

/// What a file holds up to its last finished task.
struct scan_result {
  std::string header;
  std::string last_done;
  std::int64_t keep = 0;  ///< bytes up to there
};

/// A line counts only with its line break: the writer may have died in it.
scan_result scan(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  scan_result found;
  std::int64_t offset = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    offset += static_cast<std::int64_t>(line.size()) + 1;
    if (found.keep == 0) {
      found.header = line;
      found.keep = offset;
    } else if (line.starts_with(done_prefix)) {
      found.last_done = line;
      found.keep = offset;
    }
  }
  return found;
}

base::status check_header(const std::string& text, const base::json& wanted) {
  QUERN_TRY(const base::json header, base::parse_json(text));
  QUERN_TRY(const auto version, base::get<std::int64_t>(header, "quern_corpus"));
  if (version != corpus_version)
    return base::fail(base::errc::version, "corpus version {}, this build knows {}", version,
                      corpus_version);
  for (const auto& [key, value] : wanted.items())
    if (const base::json begun = header_value(header, key); !begun.is_null() && begun != value)
      return base::fail(
          base::errc::conflict,
          "it was begun with {} = {}, now it is {}: use the old settings or another file", key,
          base::dump(begun), base::dump(value));
  return {};
}

base::expected<std::vector<std::string>> get_hashes(const base::json& value) {
  std::vector<std::string> hashes;
  if (!value.contains("exemplars") || !value["exemplars"].is_array())
    return base::fail(base::errc::invalid_argument, "exemplars is not a list");
  for (const base::json& hash : value["exemplars"]) {
    if (!hash.is_string())
      return base::fail(base::errc::invalid_argument, "an element of exemplars is not a text");
    hashes.push_back(hash.get<std::string>());
  }
  return hashes;
}

base::expected<std::vector<std::int64_t>> get_scores(const base::json& value) {
  std::vector<std::int64_t> scores;
  if (!value.contains("scores") || !value["scores"].is_array())
    return base::fail(base::errc::invalid_argument, "scores is not a list");
  for (const base::json& score : value["scores"]) {
    if (!score.is_number_integer())
      return base::fail(base::errc::invalid_argument, "an element of scores is not an integer");
    scores.push_back(score.get<std::int64_t>());
  }
  return scores;
}

}  // namespace

base::json to_json(const corpus_record& what) {
  return {{"item", what.item},
          {"prompt", what.prompt},
          {"completion", what.completion},
          {"task", what.task},
          {"composition", what.composition},
          {"source_hash", what.source_hash},
          {"verdict", what.verdict},
          {"style", what.style},
          {"error", what.error},
          {"exemplars", what.exemplars},
          {"scores", what.scores}};
}

base::expected<corpus_record> corpus_record_from_json(const base::json& value) {
  corpus_record record;
  QUERN_TRY(record.item, base::get<std::int64_t>(value, "item"));
  const auto take = [&](std::string_view key, std::string& into) -> base::status {
    QUERN_TRY(into, base::get<std::string>(value, key));
    return {};
  };
  QUERN_CHECK(take("prompt", record.prompt));
  QUERN_CHECK(take("completion", record.completion));
  QUERN_CHECK(take("task", record.task));
  QUERN_CHECK(take("composition", record.composition));
  QUERN_CHECK(take("source_hash", record.source_hash));
  QUERN_CHECK(take("verdict", record.verdict));
  QUERN_CHECK(take("style", record.style));
  QUERN_CHECK(take("error", record.error));
  QUERN_TRY(record.exemplars, get_hashes(value));
  QUERN_TRY(record.scores, get_scores(value));
  return record;
}

base::expected<corpus_file> corpus_file::open(const std::filesystem::path& path,
                                              const base::json& header) {
  corpus_file file;
  file.fd_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.fd_) return base::fail_errno("opening " + path.string());
  if (::flock(file.fd_.get(), LOCK_EX | LOCK_NB) != 0)
    return base::fail(base::errc::conflict, "{} is in use by another process", path.string());
  const scan_result found = scan(path);
  if (found.keep > 0)
    if (auto same = check_header(found.header, header); !same)
      return base::in_context(path.string(), std::move(same).error());
  if (!found.last_done.empty()) {
    QUERN_TRY(const base::json line, base::parse_json(found.last_done));
    QUERN_TRY(file.counts_, counts_from_json(line));
  }
  if (::ftruncate(file.fd_.get(), found.keep) != 0)
    return base::fail_errno("cutting the torn end off " + path.string());
  if (found.keep == 0) {
    base::json first = header;
    first["quern_corpus"] = corpus_version;
    QUERN_CHECK(base::write_all(file.fd_.get(), base::dump(first) + "\n"));
  }
  return file;
}

base::status corpus_file::append(const std::vector<corpus_record>& records,
                                 const corpus_counts& counts) {
  std::string text;
  for (const corpus_record& record : records)
    text += base::dump(to_json(record)) + "\n";
  // Keys are written sorted: task_done has to stand first, so that a line is known by its
  // beginning.
  base::ordered_json done;
  const base::json values = to_json(counts);
  done["task_done"] = values["task_done"];
  for (const auto& [key, value] : values.items())
    done[key] = value;
  text += base::dump(done) + "\n";
  const off_t before = ::lseek(fd_.get(), 0, SEEK_END);
  if (auto written = base::write_all(fd_.get(), text); !written) {
    // Half a task must not stand in front of the next one; if this fails too, opening again cuts it
    // off.
    if (before < 0 || ::ftruncate(fd_.get(), before) != 0) fd_.reset();
    return written;
  }
  counts_ = counts;
  return {};
}

base::expected<std::vector<corpus_record>> read_corpus(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return base::fail_errno("reading " + path.string());
  const std::int64_t keep = scan(path).keep;
  std::vector<corpus_record> records;
  std::int64_t offset = 0;
  std::int64_t number = 0;
  for (std::string line; offset < keep && std::getline(in, line);) {
    offset += static_cast<std::int64_t>(line.size()) + 1;
    if (++number == 1) {
      if (auto same = check_header(line, base::json::object()); !same)
        return base::in_context(path.string(), std::move(same).error());
      continue;
    }
    if (line.starts_with(done_prefix)) continue;
    auto record = base::parse_json(line).and_then(corpus_record_from_json);
    if (!record)
      return base::in_context(fmt::format("{}:{}", path.string(), number),
                              std::move(record).error());
    records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace quern::env
