// The file of a corpus: JSON lines that only grow, whole tasks at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::env {

inline constexpr int corpus_version = 1;

/// One example to learn from.
struct corpus_record {
  std::int64_t item = 0;               ///< task index * samples_per_task + sample
  std::string prompt;                  ///< as render_prompt gives it, without chat template
  std::string completion;              ///< as render_completion gives it
  std::string task;                    ///< task id
  std::string composition;             ///< to_text of it
  std::string source_hash;             ///< of the canonical source, 32 hex digits
  std::string verdict;                 ///< name of its kind: "ok", "wrong_value", ...
  std::string style;                   ///< to_text of it
  std::string error;                   ///< the intended mistake, "none" for a correct kernel
  std::vector<std::string> exemplars;  ///< source hashes of what the prompt shows, in order
  std::vector<std::int64_t> scores;    ///< their speed-ups in 1/100; 0: it is wrong
  friend bool operator==(const corpus_record&, const corpus_record&) = default;
};

base::json to_json(const corpus_record& what);
/// Unknown fields are ignored; a missing one or one of another type is an error that names it.
base::expected<corpus_record> corpus_record_from_json(const base::json& value);

/// What happened in a file so far.
struct corpus_counts {
  std::int64_t next_task = 0;      ///< every task of the shard below it is finished
  std::int64_t tasks = 0;          ///< finished with at least one record
  std::int64_t skipped_tasks = 0;  ///< finished without one: held out, or nothing could be verified
  std::int64_t records = 0;
  std::int64_t wrong = 0;        ///< records with a verdict other than ok
  std::int64_t unexpected = 0;   ///< samples left out: the verdict was not the intended one
  std::int64_t dropped = 0;      ///< samples left out: the verdict says nothing about the kernel
  std::int64_t showing = 0;      ///< records whose prompt shows exemplars
  std::int64_t comparing = 0;    ///< of these: the answer follows from them (comparison.hpp)
  std::int64_t best_shown = 0;   ///< of those: they show the best that is known
  std::int64_t wrong_shown = 0;  ///< of the comparing: one of their kernels is wrong
  friend bool operator==(const corpus_counts&, const corpus_counts&) = default;
};

/// What a header says of `key`, and where the file is older than that key, what such files were
/// made with. Null: neither is known.
base::json header_value(const base::json& header, std::string_view key);

/// Appends to one file, which it holds locked. First line: {"quern_corpus":1, ...header}; after the
/// records of a task one line {"task_done":INDEX, ...counts}. What stands behind the last of these
/// is cut off when the file is opened again, so a torn tail costs one task. Not thread-safe.
class corpus_file {
 public:
  /// Creates or resumes. Errors: the file is in use, has another version, or its header differs
  /// (the message names the first key that does, by header_value).
  static base::expected<corpus_file> open(const std::filesystem::path& path,
                                          const base::json& header);

  const corpus_counts& counts() const { return counts_; }

  /// Writes a finished task: its records, then `counts` with next_task behind the task.
  base::status append(const std::vector<corpus_record>& records, const corpus_counts& counts);

 private:
  base::unique_fd fd_;
  corpus_counts counts_;
};

/// All records of finished tasks, in file order. Errors name the line.
base::expected<std::vector<corpus_record>> read_corpus(const std::filesystem::path& path);

}  // namespace quern::env
