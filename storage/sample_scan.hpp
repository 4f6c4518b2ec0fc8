// All samples of a run, read in short stretches: for readers of a run that goes on, whose writer
// must be able to fold its log at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "storage/database.hpp"
#include "storage/sample_state.hpp"

namespace quern::storage {

/// A sample with its group's task and the verdict that decided it.
struct scanned_sample {
  std::int64_t id = 0;
  std::string task;
  sample_state state = sample_state::issued;
  std::optional<std::int64_t> v_min;
  std::optional<double> reward;
  std::optional<std::int64_t> step;  ///< the version that the gradient step with it made
  std::string drop_reason;           ///< empty: it was not dropped
  std::optional<base::hash128> source_hash;
  std::optional<std::int64_t> verdict_id;
  std::optional<std::int64_t> speedup_e2;
  std::string verdict;  ///< the text at the key of the verdict that `make` was given; may be empty
};

/// Over a database that is open for reading. One thread. No cursor stays open between calls.
class sample_scan {
 public:
  /// `db` must outlive the scan. `verdict_key`: a key of the JSON object that a verdict is.
  static base::expected<sample_scan> make(database& db, const std::string& verdict_key);

  /// At most `most` samples with ids from `first` on, in order: one read transaction, of a few
  /// milliseconds for 500.
  base::expected<std::vector<scanned_sample>> from(std::int64_t first, std::int64_t most);

  /// The newest incarnation; 0 where none was opened. Samples change backwards only when one is
  /// opened.
  base::expected<std::int64_t> incarnation();

  /// The newest version that a checkpoint of the present weights holds; -1: none does.
  base::expected<std::int64_t> checkpoint();

  /// Where the text of a kernel lies among the blobs. None: the archive does not have it.
  base::expected<std::optional<base::hash128>> text_of(const std::string& task,
                                                       const base::hash128& source);

  /// A verdict as it was stored. Error: not_found.
  base::expected<std::string> verdict_json(std::int64_t id);

 private:
  statement stretch_, incarnation_, checkpoint_, text_, verdict_;
};

}  // namespace quern::storage
