// Folders of runs in any state, made by hand: a ledger, an archive, metrics and a configuration.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/file.hpp"
#include "storage/archive.hpp"
#include "storage/run_directory.hpp"
#include "support/test.hpp"
#include "tests/storage/ledger_support.hpp"

namespace quern::test {

/// A kernel that would leave the script element in which a page keeps it.
inline constexpr const char* hostile_kernel =
    "// </script><script>window.hacked = 1</script><img src=x onerror=\"window.hacked = 2\">\n"
    "// <!-- <script> \u2028 ' & \" `${window.hacked = 3}`\n"
    "void kernel() {}\n";

inline const actors::run_config& page_config() {
  static const actors::run_config config =
      actors::load_config(source_dir() / "configs/quickstart.yaml",
                          {"tasks.count=4", "tasks.held_out_count=2", "learner.steps=6",
                           "observe.evaluation_set=false", "run.name=<b>made</b>"})
          .value();
  return config;
}

inline const actors::task_book& page_tasks() {
  static const actors::task_book tasks = actors::task_book::make(page_config()).value();
  return tasks;
}

/// A line of metrics.jsonl as a step makes it.
inline std::string metrics_line(std::int64_t step, double reward) {
  return fmt::format(
      R"({{"step":{0},"incarnation":1,"seconds":{0}.5,"batch":{{"samples":4,"ok":0.5,"reward":{1},)"
      R"("rewarded":2,"verdicts":{{"ok":2,"wrong_value":1,"malformed":1}}}},"judged":4,"ok":0.5,)"
      R"("reward":{1},"in_flight":8,"ages":{{"0":3,"1":1}},"age_mean":0.25,"span_s":1.5,)"
      R"("tokens_per_s":{2},"evaluations_per_h":4000.0,"roles":{{"generator":{{"busy":0.5,)"
      R"("idle":0.4,"device_wait":0.1,"absent":0.0,"waits_for":{{"window":0.4}}}},"learner":)"
      R"({{"busy":0.2,"idle":0.8,"device_wait":0.0,"absent":0.0,"waits_for":{{"groups":0.8}}}}}},)"
      R"("held_back":{{"kind":"role","by":["generator"],"text":"held back by the generator"}},)"
      R"("learner":{{"loss":{3},"entropy":1.2,"new_of_a_later_build":7}}}})"
      "\n",
      step, reward, 100 * step, 1.0 / static_cast<double>(step));
}

/// A run folder. While it is open, its lock is held as by a run that goes on.
class made_run {
 public:
  explicit made_run(std::filesystem::path root, const actors::run_config& config = page_config())
      : root_(std::move(root)) {
    folder_.emplace(must(storage::run_directory::create(
        root_, actors::to_yaml(config),
        {{"stage", config.stage}, {"seed", 1}, {"build", "b"}, {"machine", "m"}})));
  }

  void begin() {
    db_ = must(storage::database::open(root_ / "run.db", storage::database::access::write));
    book_ = must(storage::ledger::open(*db_));
    archive_ = must(storage::archive::open(*db_, blobs_));
    must(book_->open_incarnation({"start", 0, {}}));
  }

  /// A group of two samples of a task, judged and trained on by `version`: the first `ok` with a
  /// speed-up, the second wrong. Its line of metrics.jsonl.
  void step(std::int64_t version, std::size_t task, std::int64_t speedup_e2,
            const std::string& source = "void kernel();\n") {
    const auto ids = issue(task);
    judge(ids[0], task, R"({"verdict":"ok","confirmed":true,"protocol":"paired/1"})", speedup_e2,
          source, version);
    judge(ids[1], task, R"({"verdict":"wrong_value"})", std::nullopt, "", version);
    must(book_->consume(ids, version));
    must(book_->commit());
    append(metrics_line(version, static_cast<double>(speedup_e2) / 200));
  }

  std::vector<std::int64_t> issue(std::size_t task, int size = 2) {
    storage::group_spec group = group_of(must(book_->position()).next_seq, size);
    group.task = page_tasks().tasks()[task].id;
    const auto issued = must(book_->issue(group));
    std::vector<std::int64_t> ids;
    for (int k = 0; k < size; ++k)
      ids.push_back(issued.first_sample + k);
    return ids;
  }

  void drop(const std::vector<std::int64_t>& samples, const char* reason) {
    must(book_->drop(samples, reason));
    must(book_->commit());
  }

  void checkpoint(std::int64_t version) {
    must(book_->record_checkpoint({version, 0, "checkpoints/v", {1, 2}}));
    must(book_->commit());
  }

  void append(const std::string& text) const {
    std::ofstream(root_ / "metrics.jsonl", std::ios::app) << text;
  }

  /// The report of a run that has ended.
  void finish() const { must(base::write_file_atomic(root_ / "report.txt", "closing <words>\n")); }

  /// Nobody holds it any more.
  void close() {
    archive_.reset();
    book_.reset();
    if (db_) CHECK(db_->fold());
    db_.reset();
    folder_.reset();
  }

  storage::ledger& book() { return *book_; }
  storage::database& db() { return *db_; }
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  void judge(std::int64_t sample, std::size_t task, const std::string& json,
             std::optional<std::int64_t> speedup_e2, const std::string& source,
             std::int64_t version) {
    const std::int64_t incarnation = must(book_->position()).incarnation;
    must(book_->generated(tokens_of(sample, incarnation, version - 1, version - 1)));
    storage::verdict_row verdict = verdict_of(sample, incarnation, 1);
    verdict.task = page_tasks().tasks()[task].id;
    verdict.json = json;
    verdict.speedup_e2 = speedup_e2;
    const auto judged = must(book_->evaluated(verdict));
    const storage::admission one{sample, speedup_e2 ? static_cast<double>(*speedup_e2) / 100 : 0};
    must(book_->admit({&one, 1}));
    if (source.empty()) return;
    storage::variant fresh;
    fresh.key = {verdict.task, verdict.device_class, verdict.protocol};
    fresh.source_hash = *verdict.source_hash;
    fresh.verdict_id = judged.id;
    fresh.speedup_e2 = speedup_e2;
    fresh.sample = sample;
    must(archive_->record(fresh, source));
  }

  std::filesystem::path root_;
  storage::blob_store blobs_{root_ / "blobs"};
  std::optional<storage::run_directory> folder_;
  std::unique_ptr<storage::database> db_;
  std::unique_ptr<storage::ledger> book_;
  std::unique_ptr<storage::archive> archive_;
};

/// A whole run of six steps, the second with a hostile kernel that is the fastest.
inline void make_finished_run(const std::filesystem::path& root) {
  made_run run(root);
  run.begin();
  for (std::int64_t version = 1; version <= 6; ++version)
    run.step(version, static_cast<std::size_t>(version) % 3,
             version == 2 ? 900 : 100 + 10 * version,
             version == 2 ? hostile_kernel : "void kernel();\n");
  run.drop(run.issue(0), "stopped");
  run.checkpoint(6);
  run.finish();
  run.close();
}

}  // namespace quern::test
