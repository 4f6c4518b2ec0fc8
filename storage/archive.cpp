#include "storage/archive.hpp"

#include <algorithm>

#include "storage/ledger_sql.hpp"

namespace quern::storage {

base::expected<variant> read_variant(const statement& row) {
  variant found;
  found.id = row.integer(0);
  found.key = {row.text(1), row.text(2), row.text(3)};
  QUERN_TRY(const auto source, row.maybe_hash(4));
  QUERN_TRY(const auto text, row.maybe_hash(5));
  found.source_hash = source.value_or(base::hash128{});
  found.text_hash = text.value_or(base::hash128{});
  found.verdict_id = row.maybe_integer(6);
  found.speedup_e2 = row.maybe_integer(7);
  found.version = row.integer(8);
  found.incarnation = row.integer(9);
  found.sample = row.integer(10);
  QUERN_TRY(found.parents, parse_ids(row.text(11)));
  return found;
}

struct archive::statements {
  statement by_id, by_source, best, last_incarnation;
  statement add, revive, rescore;  ///< where the connection may write
  base::status prepare_writes(database& db);
};

base::status archive::statements::prepare_writes(database& db) {
  QUERN_TRY(add,
            db.prepare("INSERT INTO variants(task, device_class, protocol, source_hash, "
                       "text_hash, verdict_id, speedup_e2, version, incarnation, sample, parents) "
                       "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  QUERN_TRY(revive, db.prepare("UPDATE variants SET text_hash = ?, verdict_id = ?, "
                               "speedup_e2 = ?, version = ?, incarnation = ?, sample = ?, "
                               "parents = ? WHERE id = ?"));
  QUERN_TRY(rescore, db.prepare("UPDATE variants SET verdict_id = ?, speedup_e2 = ? WHERE id = ?"));
  return {};
}

archive::archive(database& db, const blob_store& blobs, archive_options options)
    : db_(db), blobs_(blobs), options_(std::move(options)), sql_(std::make_unique<statements>()) {}

archive::~archive() = default;

base::expected<std::unique_ptr<archive>> archive::open(database& db, const blob_store& blobs,
                                                       archive_options options) {
  QUERN_CHECK(check_edges(options.edges));
  std::unique_ptr<archive> opened(new archive(db, blobs, std::move(options)));
  statements& sql = *opened->sql_;
  QUERN_TRY(sql.by_id,
            db.prepare(fmt::format("SELECT {} FROM variants WHERE id = ?", variant_columns)));
  QUERN_TRY(sql.by_source,
            db.prepare(fmt::format("SELECT {} FROM variants WHERE task = ? AND source_hash = ? "
                                   "AND device_class = ? AND protocol = ?",
                                   variant_columns)));
  // The index gives scores from the top; the first row that is known by then is the best.
  QUERN_TRY(sql.best, db.prepare(fmt::format("SELECT {} FROM variants WHERE task = ? AND "
                                             "device_class = ? AND protocol = ? AND speedup_e2 IS "
                                             "NOT NULL ORDER BY speedup_e2 DESC, sample, id",
                                             variant_columns)));
  if (db.writable()) QUERN_CHECK(sql.prepare_writes(db));
  QUERN_TRY(sql.last_incarnation,
            db.prepare("SELECT id FROM incarnations ORDER BY id DESC LIMIT 1"));
  QUERN_CHECK(opened->rebuild());
  return opened;
}

bool archive::is_lost(std::int64_t version, std::int64_t incarnation) const {
  return version > known_from(version, incarnation);
}

std::int64_t archive::known_from(std::int64_t version, std::int64_t incarnation) const {
  // The first incarnation after `incarnation` has the lowest version that any later one went back
  // to.
  const auto later = cut_.upper_bound(incarnation);
  return later == cut_.end() ? version : std::min(version, later->second);
}

const score_buckets& archive::key_buckets::of(variants_of whose) const {
  switch (whose) {
    case variants_of::everybody:
      return everybody;
    case variants_of::the_policy:
      return the_policy;
    case variants_of::brought_along:
      return brought_along;
  }
  return everybody;
}

base::status archive::rebuild() {
  cut_.clear();
  buckets_.clear();
  incarnation_ = 0;
  QUERN_TRY(statement incarnations,
            db_.prepare("SELECT id, from_version FROM incarnations ORDER BY id DESC"));
  std::int64_t lowest = INT64_MAX;
  while (true) {
    QUERN_TRY(const bool row, incarnations.next());
    if (!row) break;
    incarnation_ = std::max(incarnation_, incarnations.integer(0));
    lowest = std::min(lowest, incarnations.integer(1));
    cut_[incarnations.integer(0)] = lowest;
  }
  // In the order in which members lie in their buckets, so that each goes to an end.
  QUERN_TRY(statement rows,
            db_.prepare("SELECT task, device_class, protocol, id, sample, version, "
                        "speedup_e2, incarnation FROM variants WHERE speedup_e2 IS NOT "
                        "NULL ORDER BY version, sample, id"));
  while (true) {
    QUERN_TRY(const bool row, rows.next());
    if (!row) return {};
    place({rows.text(0), rows.text(1), rows.text(2)},
          {rows.integer(3), rows.integer(4), rows.integer(5), rows.integer(6)}, rows.integer(7));
  }
}

void archive::place(const variant_key& key, bucket_member member, std::int64_t incarnation) {
  if (is_lost(member.version, incarnation)) {
    if (options_.lost == lost_variants::forget) return;
    member.version = known_from(member.version, incarnation);
  }
  key_buckets& home = buckets_.try_emplace(key, options_.edges).first->second;
  home.everybody.insert(member);
  home.by_origin(member.order).insert(member);
}

void archive::displace(const variant& known) {
  if (!known.speedup_e2) return;
  const auto home = buckets_.find(known.key);
  if (home == buckets_.end()) return;
  const bucket_member member{known.id, known.sample, known_from(known.version, known.incarnation),
                             *known.speedup_e2};
  home->second.everybody.erase(member);
  home->second.by_origin(known.sample).erase(member);
}

base::expected<recorded> archive::record(const variant& fresh, std::string_view text) {
  QUERN_CHECK(follow_incarnation());
  QUERN_TRY(const auto known, find_any(fresh.key, fresh.source_hash));
  const bool forgotten = known && options_.lost == lost_variants::forget &&
                         is_lost(known->version, known->incarnation);
  if (known && !forgotten) return recorded{known->id, false};
  QUERN_TRY(const base::hash128 text_hash, blobs_.put(text));
  recorded result{known ? known->id : 0, true};
  const base::status done = db_.atomically(1, [&]() -> base::status {
    if (known) {
      return sql_->revive.bind(1, text_hash)
          .bind(2, fresh.verdict_id)
          .bind(3, fresh.speedup_e2)
          .bind(4, fresh.version)
          .bind(5, incarnation_)
          .bind(6, fresh.sample)
          .bind(7, ids_text(fresh.parents))
          .bind(8, known->id)
          .run();
    }
    QUERN_CHECK(sql_->add.bind(1, fresh.key.task)
                    .bind(2, fresh.key.device_class)
                    .bind(3, fresh.key.protocol)
                    .bind(4, fresh.source_hash)
                    .bind(5, text_hash)
                    .bind(6, fresh.verdict_id)
                    .bind(7, fresh.speedup_e2)
                    .bind(8, fresh.version)
                    .bind(9, incarnation_)
                    .bind(10, fresh.sample)
                    .bind(11, ids_text(fresh.parents))
                    .run());
    result.id = db_.last_row_id();
    return {};
  });
  QUERN_CHECK(done);
  if (fresh.speedup_e2) {
    place(fresh.key, {result.id, fresh.sample, fresh.version, *fresh.speedup_e2}, incarnation_);
  }
  return result;
}

base::status archive::follow_incarnation() {
  QUERN_TRY(const bool row, sql_->last_incarnation.next());
  const std::int64_t now = row ? sql_->last_incarnation.integer(0) : 0;
  sql_->last_incarnation.reset();
  if (now == 0) {
    return base::fail(base::errc::conflict,
                      "no incarnation is open: open one before a variant is kept");
  }
  return now == incarnation_ ? base::status() : rebuild();
}

base::status archive::rescore(std::int64_t id, std::int64_t verdict_id,
                              std::optional<std::int64_t> speedup_e2) {
  QUERN_CHECK(follow_incarnation());
  QUERN_TRY(const variant known, get(id));
  const base::status done = db_.atomically(
      1, [&] { return sql_->rescore.bind(1, verdict_id).bind(2, speedup_e2).bind(3, id).run(); });
  QUERN_CHECK(done);
  displace(known);
  if (speedup_e2)
    place(known.key, {id, known.sample, known.version, *speedup_e2}, known.incarnation);
  return {};
}

base::expected<variant> archive::get(std::int64_t id) const {
  QUERN_TRY(const bool row, sql_->by_id.bind(1, id).next());
  if (!row) return base::fail(base::errc::not_found, "there is no variant {}", id);
  auto found = read_variant(sql_->by_id);
  sql_->by_id.reset();
  return found;
}

base::expected<std::string> archive::text(const variant& of) const {
  return blobs_.get(of.text_hash);
}

base::expected<std::optional<variant>> archive::find_any(const variant_key& key,
                                                         const base::hash128& source) const {
  QUERN_TRY(const bool row, sql_->by_source.bind(1, key.task)
                                .bind(2, source)
                                .bind(3, key.device_class)
                                .bind(4, key.protocol)
                                .next());
  if (!row) return std::optional<variant>();
  auto found = read_variant(sql_->by_source);
  sql_->by_source.reset();
  if (!found) return tl::make_unexpected(found.error());
  return std::optional(std::move(*found));
}

base::expected<std::optional<variant>> archive::find(const variant_key& key,
                                                     const base::hash128& source) const {
  QUERN_TRY(auto known, find_any(key, source));
  const bool forgotten = known && options_.lost == lost_variants::forget &&
                         is_lost(known->version, known->incarnation);
  if (forgotten) known.reset();
  return known;
}

base::expected<std::optional<variant>> archive::best(const variant_key& key, std::int64_t version,
                                                     variants_of whose) const {
  QUERN_TRY(auto found, fastest(key, version, 1, whose));
  if (found.empty()) return std::optional<variant>();
  return std::optional(std::move(found.front()));
}

base::expected<std::vector<variant>> archive::fastest(const variant_key& key, std::int64_t version,
                                                      std::size_t most, variants_of whose) const {
  statement& rows = sql_->best;
  rows.bind(1, key.task).bind(2, key.device_class).bind(3, key.protocol);
  std::vector<variant> found;
  while (found.size() < most) {
    QUERN_TRY(const bool row, rows.next());
    if (!row) return found;
    const std::int64_t made = rows.integer(8);
    const std::int64_t incarnation = rows.integer(9);
    const bool brought = rows.integer(10) == 0;
    if (brought ? whose == variants_of::the_policy : whose == variants_of::brought_along) continue;
    if (known_from(made, incarnation) > version) continue;
    if (is_lost(made, incarnation) && options_.lost == lost_variants::forget) continue;
    auto one = read_variant(rows);
    if (!one) {
      rows.reset();
      return tl::make_unexpected(one.error());
    }
    found.push_back(std::move(*one));
  }
  rows.reset();
  return found;
}

const score_buckets* archive::buckets(const variant_key& key, variants_of whose) const {
  const auto found = buckets_.find(key);
  if (found == buckets_.end()) return nullptr;
  const score_buckets& chosen = found->second.of(whose);
  return chosen.size() == 0 ? nullptr : &chosen;
}

std::vector<variant_key> archive::keys() const {
  std::vector<variant_key> found;
  for (const auto& [key, buckets] : buckets_) {
    if (buckets.everybody.size() > 0) found.push_back(key);
  }
  return found;
}

}  // namespace quern::storage
