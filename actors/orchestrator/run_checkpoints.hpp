// The checkpoints of a run: which one an incarnation begins with, when the next is due, and how one
// that the learner wrote becomes durable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "actors/messages.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/checkpoint.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Not thread-safe. `run` outlives it.
class run_checkpoints {
 public:
  /// `keep`: storage.keep_checkpoints.
  run_checkpoints(storage::run_directory& run, std::int64_t keep);

  struct beginning {
    weights_version version = 0;
    std::string model;             ///< folder
    std::string optimizer;         ///< folder or file
    base::json reward_statistics;  ///< as given to `order`; null: there were none
  };
  /// The newest readable checkpoint that the ledger knows; none: it knows none. Errors: none of
  /// those that it knows can be read; its state.json cannot.
  [[nodiscard]] base::expected<std::optional<beginning>> newest(const storage::ledger& rows) const;

  /// An incarnation begins with `version`. Newer checkpoints, damaged or unknown to the ledger, go
  /// out of the way of those to come; what was half written is deleted; `version` stays as long as
  /// the incarnation. Error: a folder that cannot be moved.
  base::status begin(weights_version version);

  /// A save that the learner has not answered.
  [[nodiscard]] bool saving() const { return saving_.has_value(); }
  /// The newest that is durable, or what the incarnation began with.
  [[nodiscard]] weights_version last() const { return last_; }
  /// The order to save `version`, with what is to stand beside the weights. Not while saving.
  save_checkpoint order(incarnation_id incarnation, weights_version version,
                        base::json reward_statistics);
  /// The learner has written what was ordered: it becomes durable, then known to the ledger, then
  /// the newest. An answer to anything else does nothing. Errors: io.
  base::status saved(const checkpoint_saved& answer, storage::ledger& rows);

 private:
  storage::run_directory& run_;
  storage::checkpoint_store store_;
  std::optional<weights_version> saving_;
  base::json state_;  ///< state.json of what is being saved
  weights_version last_ = 0;
};

}  // namespace quern::actors
