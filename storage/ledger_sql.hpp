// What the ledger's source files share: its prepared statements, and rows as values. Internal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/archive.hpp"
#include "storage/ledger.hpp"

namespace quern::storage {

struct ledger::statements {
  statement new_group, new_sample;
  statement where_is;  ///< (id) -> state, v_max
  statement generate, judge, new_verdict;
  statement admit, consume, drop;
  statement new_checkpoint, train;
  statement new_incarnation, close_incarnation, reissue_live, reissue_trained, reissue_one, readmit;
  base::status prepare(database& db);
  base::status prepare_turns(database& db);
};

/// Columns of `read_sample`, in its order.
inline constexpr std::string_view sample_columns =
    "id, grp, k, state, incarnation, v_min, v_max, segments, tokens_hash, source_hash, verdict_id, "
    "reward, step, drop_reason";
base::expected<sample_row> read_sample(const statement& row);

inline constexpr std::string_view verdict_columns =
    "id, sample, incarnation, attempt, task, source_hash, protocol, device_class, env, speedup_e2, "
    "confirmed, json";

/// Behind the columns: whether it is the one that its sample refers to.
inline constexpr std::string_view verdict_counts =
    ", EXISTS (SELECT 1 FROM samples WHERE samples.verdict_id = verdicts.id "
    "AND samples.id = verdicts.sample)";
base::expected<stored_verdict> read_verdict(const statement& row);

/// Columns of `read_variant`, in its order.
inline constexpr std::string_view variant_columns =
    "id, task, device_class, protocol, source_hash, text_hash, verdict_id, speedup_e2, version, "
    "incarnation, sample, parents";
base::expected<variant> read_variant(const statement& row);

/// "[[first token, version, weights hash], ...]" and "[1, 2]", as the tables hold them.
std::string segments_text(const std::vector<segment>& segments);
base::expected<std::vector<segment>> parse_segments(std::string_view text);
std::string ids_text(const std::vector<std::int64_t>& ids);
base::expected<std::vector<std::int64_t>> parse_ids(std::string_view text);

/// A condition on `checkpoints AS c`: no later incarnation went back to before it.
inline constexpr std::string_view survives =
    "NOT EXISTS (SELECT 1 FROM incarnations AS e WHERE e.id > c.incarnation AND e.from_version < "
    "c.version)";

}  // namespace quern::storage
