// What `quern bench` has found out so far: one line of JSON a verdict, on the disk before the next
// one, so that a run that was killed goes on where it was.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "env/task/suite.hpp"
#include "env/verdict/verdict.hpp"
#include "storage/jsonl.hpp"

namespace quern::tools {

/// What verdicts must share to stand in one report: the first line of a file of results.
struct bench_header {
  std::string suite;       ///< the suite's name
  std::string suite_hash;  ///< suite_hash()
  std::string lane;
  std::string protocol;
  std::string device_class;
  std::string environment;      ///< candidate_judge::environment()
  std::int64_t budget_ms = 0;   ///< of measuring one candidate
  std::int64_t timeout_ms = 0;  ///< of one evaluation as a whole; 0: none, and not written
  friend bool operator==(const bench_header&, const bench_header&) = default;
};

struct bench_result {
  std::string task;       ///< name
  std::string candidate;  ///< id
  std::string source;     ///< bench_candidate::hash
  env::verdict verdict;
  friend bool operator==(const bench_result&, const bench_result&) = default;
};

/// A verdict `infra_error` with this reason: the candidate put devices into quarantine again and
/// again, and is not asked for any more.
inline constexpr std::string_view left_out_reason = "left_out";
bool is_left_out(const env::verdict& v);

/// Whether a verdict is worth keeping: infra_error and invalid_reference are about the host and the
/// task, and a later run, on a host that is well, asks again, but for what was left out.
bool is_final(const env::verdict& v);

/// Hash of all of a suite that a verdict depends on: its tasks, recheck_above and policy. The split
/// and the name do not enter. 32 hex digits.
std::string suite_hash(const env::suite& suite);

base::ordered_json to_json(const bench_header& header);
base::ordered_json to_json(const bench_result& result);
/// Errors name what is missing or of another version.
base::expected<bench_header> header_from_json(const base::json& value);
base::expected<bench_result> result_from_json(const base::json& value);

/// Nothing where results under `there` may be joined by those under `now`; else invalid_argument
/// with what differs, both values and what to do. What of `now` is empty is not known yet.
base::status check_same(const bench_header& there, const bench_header& now);

/// The results of a file that may not exist, with the errors that opening it would have; changes
/// and makes nothing. Device class and environment of `header` may be empty: not known yet.
base::expected<std::vector<bench_result>> peek_results(const std::filesystem::path& path,
                                                       const bench_header& header);

/// The file of results. One process a file, by flock. Not thread-safe.
class results_file {
 public:
  /// Opens or makes the file; a torn last line is cut off. Nothing is changed on an error: a file
  /// that is something else or of another suite, protocol, environment (invalid_argument), one
  /// that another process writes (conflict), a line that cannot be (corrupt, with its number).
  static base::expected<results_file> open(const std::filesystem::path& path,
                                           const bench_header& header);

  /// What it held when it was opened, in order.
  [[nodiscard]] const std::vector<bench_result>& earlier() const { return earlier_; }

  /// Durable on return.
  base::status append(const bench_result& result);

 private:
  results_file(base::unique_fd lock, storage::jsonl_writer writer,
               std::vector<bench_result> earlier)
      : lock_(std::move(lock)), writer_(std::move(writer)), earlier_(std::move(earlier)) {}
  base::unique_fd lock_;
  storage::jsonl_writer writer_;
  std::vector<bench_result> earlier_;
};

}  // namespace quern::tools
