// The folder of a run that a test writes by hand, through the classes that a real run writes with:
// what reads runs is tested in milliseconds and without processes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "actors/orchestrator/sample_blob.hpp"
#include "base/file.hpp"
#include "env/verdict/verdict.hpp"
#include "storage/archive.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"
#include "support/test.hpp"

namespace quern::test {

/// Holds the run's lock until `close` or its own end, as a control process that works does.
class written_run {
 public:
  /// `more`: further lines of its configuration.
  explicit written_run(const std::filesystem::path& folder,
                       const std::string& stage = "contrastive", const std::string& more = "")
      : folder_(folder) {
    run_.emplace(value(storage::run_directory::create(
        folder, "quern_config: 2\nstage: " + stage + "\nrun: {name: written}\n" + more,
        {{"stage", stage}})));
  }

  /// Makes run.db with its first incarnation. Samples can be written from here on.
  written_run& open(std::int64_t from_version = 0) {
    db_ = value(storage::database::open(folder_ / "run.db", storage::database::access::write));
    ledger_ = value(storage::ledger::open(*db_));
    archive_ = value(storage::archive::open(*db_, blobs_));
    next_incarnation("start", from_version);
    return *this;
  }

  void next_incarnation(const std::string& reason, std::int64_t from_version,
                        bool tokens_readable = true) {
    const auto readable = [=](std::int64_t, const base::hash128&) { return tokens_readable; };
    incarnation_ = value(ledger_->open_incarnation({reason, from_version, readable})).incarnation;
  }

  /// A group of `size` samples; their ids.
  std::vector<std::int64_t> issue(const std::string& task, int size,
                                  const std::vector<std::int64_t>& exemplars = {}) {
    storage::group_spec group;
    group.seq = value(ledger_->position()).next_seq;
    group.task = task + "@00000000000000000000000000000001";
    group.exemplars = exemplars;
    group.prompt_hash = value(blobs_.put("the prompt of group " + std::to_string(group.seq)));
    group.size = size;
    const auto issued = value(ledger_->issue(group));
    value(ledger_->commit());
    std::vector<std::int64_t> ids;
    for (int k = 0; k < size; ++k)
      ids.push_back(issued.first_sample + k);
    return ids;
  }

  /// Tokens: 3 of the prompt, 4 of the model, the last two by `last_version`.
  void generate(std::int64_t sample, const std::string& text, std::int64_t version,
                std::int64_t last_version) {
    actors::generated_sample made;
    made.tokens.assign(7 * sizeof(std::int32_t), '\1');
    made.segments = actors::single_turn(3, 4);
    made.log_probs.assign(4 * sizeof(float), '\0');
    made.text = text;
    storage::generation tokens{sample, incarnation_, {{0, version, {1, 1}}}, {}};
    if (last_version != version) tokens.segments.push_back({2, last_version, {2, 2}});
    tokens.tokens_hash = value(blobs_.put(actors::encode_sample(made)));
    value(ledger_->generated(tokens));
    value(ledger_->commit());
  }
  void generate(std::int64_t sample, const std::string& text, std::int64_t version = 0) {
    generate(sample, text, version, version);
  }

  /// An attempt; `counts` as `env::judges_candidate` says.
  void judge(std::int64_t sample, env::verdict_kind kind, std::int64_t speedup_e2 = 100,
             std::int64_t attempt = 1) {
    env::verdict verdict;
    verdict.kind = kind;
    verdict.task = value(ledger_->group(value(ledger_->sample(sample)).group)).task;
    verdict.source = base::to_hex(base::xxh128("kernel " + std::to_string(sample)));
    verdict.protocol = "paired/1";
    verdict.device_class = "cpp-avx2";
    verdict.env = "e";
    if (kind == env::verdict_kind::ok) verdict.speedup_e2 = speedup_e2;
    if (kind == env::verdict_kind::wrong_value)
      verdict.first_diff = env::first_difference{"y", {0, 3}, "0x1.8p+0", "0x1p+0"};
    storage::verdict_row row;
    row.sample = sample;
    row.incarnation = incarnation_;
    row.attempt = attempt;
    row.counts = env::judges_candidate(kind);
    row.task = verdict.task;
    row.source_hash = base::xxh128("kernel " + std::to_string(sample));
    row.protocol = verdict.protocol;
    row.device_class = verdict.device_class;
    row.env = verdict.env;
    row.speedup_e2 = verdict.speedup_e2;
    row.json = base::dump(env::to_json(verdict));
    const auto stored = value(ledger_->evaluated(row));
    if (kind == env::verdict_kind::ok) {
      storage::variant made;
      made.key = {row.task, row.device_class, row.protocol};
      made.source_hash = *row.source_hash;
      made.verdict_id = stored.id;
      made.speedup_e2 = row.speedup_e2;
      made.sample = sample;
      value(archive_->record(made, "kernel " + std::to_string(sample)));
    }
    value(ledger_->commit());
  }

  void admit(std::int64_t sample, double reward) {
    const storage::admission one{sample, reward};
    value(ledger_->admit({&one, 1}));
    value(ledger_->commit());
  }
  void consume(const std::vector<std::int64_t>& samples, std::int64_t step) {
    value(ledger_->consume(samples, step));
    value(ledger_->commit());
  }
  void checkpoint(std::int64_t version) {
    value(ledger_->record_checkpoint({version, 0, "checkpoints/v" + std::to_string(version), {}}));
  }
  void drop(const std::vector<std::int64_t>& samples, const std::string& reason) {
    value(ledger_->drop(samples, reason));
    value(ledger_->commit());
  }

  /// What a run with two steps holds: samples 1 and 2 (task abs) of step 1, in a checkpoint; 3 and
  /// 4 (task relu) of step 2, in none; 5 dropped as stale; 6 waits for a verdict, 7 for tokens.
  void write_two_steps() {
    const auto first = issue("abs", 2);
    generate(first[0], "first\nkernel\n");
    judge(first[0], env::verdict_kind::ok, 137);
    generate(first[1], "second\n");
    judge(first[1], env::verdict_kind::wrong_value);
    admit(first[0], 0.5);
    admit(first[1], 0);
    consume(first, 1);
    checkpoint(1);
    const auto second = issue("relu", 2, {1});
    generate(second[0], "third\x1b[31m\n", 0, 1);
    judge(second[0], env::verdict_kind::noisy);
    judge(second[0], env::verdict_kind::ok, 90, 2);
    generate(second[1], "fourth\n", 1);
    judge(second[1], env::verdict_kind::ok, 210);
    admit(second[0], 0.1);
    admit(second[1], 0.9);
    consume(second, 2);
    const auto third = issue("relu", 3);
    generate(third[0], "fifth\n", 1);
    judge(third[0], env::verdict_kind::ok, 300);
    drop({third[0]}, "stale");
    generate(third[1], "sixth\n", 1);
  }

  /// As the end of a control process leaves it.
  void close() {
    archive_.reset();
    ledger_.reset();
    db_.reset();
    run_.reset();
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] storage::ledger& ledger() { return *ledger_; }
  [[nodiscard]] storage::database& db() { return *db_; }
  [[nodiscard]] const storage::blob_store& blobs() const { return blobs_; }

 private:
  /// The value, or a failed test with the error's text.
  template <class T>
  static T value(base::expected<T> result) {
    if (!result) FAIL(result.error().message);
    return std::move(*result);
  }
  static void value(const base::status& result) {
    if (!result) FAIL(result.error().message);
  }

  std::filesystem::path folder_;
  std::optional<storage::run_directory> run_;
  storage::blob_store blobs_{folder_ / "blobs"};
  std::unique_ptr<storage::database> db_;
  std::unique_ptr<storage::ledger> ledger_;
  std::unique_ptr<storage::archive> archive_;
  std::int64_t incarnation_ = 0;
};

}  // namespace quern::test
