#include "storage/sample_reader.hpp"

#include <algorithm>
#include <set>

#include "storage/ledger_sql.hpp"

namespace quern::storage {
namespace {

/// Rows of groups or variants that one read takes: they are small.
constexpr std::int64_t small_rows = 10'000;

/// What is read while this lives is of one moment.
class moment {
 public:
  static base::expected<moment> of(database& db) {
    QUERN_CHECK(db.execute("BEGIN"));
    return moment(&db);
  }
  moment(moment&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  moment& operator=(moment&&) = delete;
  ~moment() {
    // Nothing was written.
    if (db_ != nullptr) (void)db_->execute("ROLLBACK");
  }

 private:
  explicit moment(database* db) : db_(db) {}
  database* db_;
};

/// The first column of the first row; 0 where there is no row, or it is null.
base::expected<std::int64_t> first_integer(statement& query) {
  QUERN_TRY(const bool row, query.next());
  const std::int64_t found = row ? query.maybe_integer(0).value_or(0) : 0;
  query.reset();
  return found;
}

base::expected<std::int64_t> ask_one_number(database& db, std::string_view question) {
  QUERN_TRY(statement query, db.prepare(question));
  return first_integer(query);
}

base::expected<std::optional<variant>> find_variant(statement& query) {
  QUERN_TRY(const bool row, query.next());
  if (!row) return std::optional<variant>();
  QUERN_TRY(auto found, read_variant(query));
  query.reset();
  return std::optional<variant>(std::move(found));
}

/// A step that a later incarnation went back behind was made again, if at all, as a step above the
/// version that it went back to. So the number that stands in the row is that of the event in
/// `incarnation` if no later incarnation went back to less.
bool was_lost(const sample_record& found, std::int64_t incarnation, std::int64_t step) {
  return std::any_of(found.incarnations.begin(), found.incarnations.end(),
                     [&](const incarnation_row& later) {
                       return later.id > incarnation && later.from_version < step;
                     });
}

}  // namespace

base::expected<sample_reader> sample_reader::open(const std::filesystem::path& db, int page,
                                                  std::int64_t stretch) {
  sample_reader made;
  QUERN_TRY(made.db_, database::open(db, database::access::read));
  QUERN_TRY(made.ledger_, ledger::open(*made.db_));
  made.page_ = std::max(page, 1);
  made.stretch_ = std::max<std::int64_t>(stretch, 1);
  return made;
}

base::expected<std::vector<listed_sample>> sample_reader::page_of(std::string_view which,
                                                                  std::int64_t bound,
                                                                  std::int64_t step) const {
  QUERN_TRY(const moment now, moment::of(*db_));
  QUERN_TRY(statement query,
            db_->prepare(fmt::format(
                "SELECT {}, (SELECT seq FROM groups WHERE id = samples.grp), "
                "(SELECT task FROM groups WHERE id = samples.grp), "
                "coalesce(verdict_id, (SELECT max(v.id) FROM verdicts AS v "
                "WHERE v.sample = samples.id AND v.incarnation >= samples.incarnation)) "
                "FROM samples WHERE {} LIMIT {}",
                sample_columns, which, page_)));
  QUERN_TRY(statement by_id, db_->prepare(fmt::format("SELECT {}{} FROM verdicts WHERE id = ?",
                                                      verdict_columns, verdict_counts)));
  query.bind(1, bound);
  if (step > 0) query.bind(2, step);
  constexpr int first_more = 14;  // columns of read_sample
  std::vector<listed_sample> page;
  while (true) {
    QUERN_TRY(const bool row, query.next());
    if (!row) return page;
    listed_sample& one = page.emplace_back();
    QUERN_TRY(one.row, read_sample(query));
    one.group_seq = query.integer(first_more);
    one.task = query.text(first_more + 1);
    if (const auto id = query.maybe_integer(first_more + 2)) {
      QUERN_TRY(const bool there, by_id.bind(1, *id).next());
      if (!there) continue;
      QUERN_TRY(one.verdict, read_verdict(by_id));
      by_id.reset();
    }
  }
}

base::expected<std::vector<listed_sample>> sample_reader::below(std::int64_t id) const {
  return page_of("id < ?1 ORDER BY id DESC", id, 0);
}

base::expected<std::vector<listed_sample>> sample_reader::of_step(std::int64_t step,
                                                                  std::int64_t id) const {
  if (step < 1) return std::vector<listed_sample>();
  return page_of("state IN ('consumed', 'trained') AND id > ?1 AND step = ?2 ORDER BY id", id,
                 step);
}

base::expected<std::int64_t> sample_reader::last_sample() const {
  return ask_one_number(*db_, "SELECT max(id) FROM samples");
}

base::expected<std::int64_t> sample_reader::last_step() const {
  std::int64_t last = 0;
  for (const char* question : {"SELECT max(step) FROM samples WHERE state = 'consumed'",
                               "SELECT max(step) FROM samples WHERE state = 'trained'"}) {
    QUERN_TRY(const std::int64_t step, ask_one_number(*db_, question));
    last = std::max(last, step);
  }
  return last;
}

base::expected<std::vector<std::string>> sample_reader::tasks() const {
  std::set<std::string> found;
  QUERN_TRY(statement query,
            db_->prepare("SELECT id, task FROM groups WHERE id > ? ORDER BY id LIMIT ?"));
  std::int64_t last = 0, rows = small_rows;
  while (rows == small_rows) {
    query.bind(1, last).bind(2, small_rows);
    for (rows = 0;; ++rows) {
      QUERN_TRY(const bool row, query.next());
      if (!row) break;
      last = query.integer(0);
      found.insert(query.text(1));
    }
  }
  return std::vector<std::string>(found.begin(), found.end());
}

base::expected<std::int64_t> sample_reader::birth_of(std::int64_t id) const {
  QUERN_TRY(std::int64_t high, ask_one_number(*db_, "SELECT max(seq) FROM events"));
  QUERN_TRY(statement next, db_->prepare("SELECT sample, seq FROM events WHERE old IS NULL AND "
                                         "seq >= ? ORDER BY seq LIMIT 1"));
  // Ids ascend in the order of births.
  std::int64_t low = 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    QUERN_TRY(const bool row, next.bind(1, middle).next());
    if (row && next.integer(0) < id)
      low = next.integer(1) + 1;
    else
      high = middle;
    next.reset();
  }
  return low;
}

base::expected<std::int64_t> sample_reader::read_events(sample_record& found,
                                                        std::int64_t birth) const {
  QUERN_TRY(const std::int64_t last, ask_one_number(*db_, "SELECT max(seq) FROM events"));
  for (std::int64_t first = birth; first <= last; first += stretch_) {
    QUERN_TRY(auto some,
              ledger_->events_of(found.row.id, first, std::min(first + stretch_ - 1, last)));
    found.events.insert(found.events.end(), some.begin(), some.end());
  }
  return last;
}

base::status sample_reader::read_variants(sample_record& found) const {
  QUERN_TRY(statement by_id,
            db_->prepare(fmt::format("SELECT {} FROM variants WHERE id = ?", variant_columns)));
  for (const std::int64_t id : found.group.exemplars) {
    QUERN_TRY(auto shown, find_variant(by_id.bind(1, id)));
    if (shown) found.exemplars.push_back(std::move(*shown));
  }
  if (found.verdicts.empty() || !found.verdicts.back().row.source_hash) return {};
  const verdict_row& judged = found.verdicts.back().row;
  QUERN_TRY(statement by_source,
            db_->prepare(fmt::format("SELECT {} FROM variants WHERE task = ? AND source_hash = ? "
                                     "AND device_class = ? AND protocol = ?",
                                     variant_columns)));
  by_source.bind(1, judged.task).bind(2, *judged.source_hash);
  by_source.bind(3, judged.device_class).bind(4, judged.protocol);
  QUERN_TRY(found.kernel, find_variant(by_source));
  return {};
}

base::status sample_reader::read_incarnations(sample_record& found) const {
  QUERN_TRY(statement incarnations,
            db_->prepare("SELECT id, from_version, reason, t_ns FROM incarnations ORDER BY id"));
  while (true) {
    QUERN_TRY(const bool row, incarnations.next());
    if (!row) break;
    found.incarnations.push_back({incarnations.integer(0), incarnations.integer(1),
                                  incarnations.text(2), incarnations.integer(3)});
  }
  QUERN_TRY(
      statement checkpoints,
      db_->prepare("SELECT version, incarnation FROM checkpoints ORDER BY incarnation, version"));
  while (true) {
    QUERN_TRY(const bool row, checkpoints.next());
    if (!row) return {};
    found.checkpoints.push_back({checkpoints.integer(0), checkpoints.integer(1)});
  }
}

base::status sample_reader::read_rows(sample_record& found, std::int64_t seen) const {
  QUERN_TRY(const moment now, moment::of(*db_));
  QUERN_TRY(const auto newer, ledger_->events_of(found.row.id, seen + 1));
  found.events.insert(found.events.end(), newer.begin(), newer.end());
  QUERN_TRY(found.row, ledger_->sample(found.row.id));
  QUERN_TRY(found.group, ledger_->group(found.row.group));
  QUERN_TRY(found.verdicts, ledger_->verdicts_of(found.row.id));
  QUERN_CHECK(read_variants(found));
  return read_incarnations(found);
}

base::status sample_reader::read_issuing(sample_record& found) const {
  const event_row birth = found.events.front();
  QUERN_TRY(statement before,
            db_->prepare("SELECT sample, incarnation FROM events WHERE seq >= ? AND "
                         "seq < ? AND new = 'consumed' ORDER BY seq DESC "
                         "LIMIT 1"));
  for (std::int64_t end = birth.seq; end > 1; end -= stretch_) {
    QUERN_TRY(const bool row, before.bind(1, end - stretch_).bind(2, end).next());
    if (!row) continue;
    const std::int64_t sample = before.integer(0), incarnation = before.integer(1);
    before.reset();
    if (incarnation != birth.incarnation) break;
    QUERN_TRY(const sample_row used, ledger_->sample(sample));
    if (used.step && !was_lost(found, incarnation, *used.step)) found.issued_at = used.step;
    return {};
  }
  // No step was made in its incarnation before.
  for (const incarnation_row& one : found.incarnations)
    if (one.id == birth.incarnation) found.issued_at = one.from_version;
  return {};
}

base::expected<sample_record> sample_reader::sample(std::int64_t id) const {
  sample_record found;
  QUERN_TRY(found.row, ledger_->sample(id));
  QUERN_TRY(const std::int64_t birth, birth_of(id));
  QUERN_TRY(const std::int64_t seen, read_events(found, birth));
  QUERN_CHECK(read_rows(found, seen));
  if (found.events.empty())
    return base::fail(
        base::errc::corrupt,
        "sample {} has no event in run.db: the file is damaged; put back a copy of it", id);
  QUERN_CHECK(read_issuing(found));
  return found;
}

base::expected<std::int64_t> sample_reader::count_births(std::int64_t last) const {
  QUERN_TRY(statement births,
            db_->prepare("SELECT count(*), max(seq) FROM (SELECT seq FROM events WHERE old IS NULL "
                         "AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?)"));
  std::int64_t counted = 0, seen = 0, page = stretch_;
  while (page == stretch_) {
    QUERN_TRY(const bool row, births.bind(1, seen).bind(2, last).bind(3, stretch_).next());
    page = row ? births.integer(0) : 0;
    counted += page;
    if (page > 0) seen = births.integer(1);
    births.reset();
  }
  return counted;
}

base::status sample_reader::add_stretch(sample_totals& sum, std::int64_t first,
                                        std::int64_t last) const {
  QUERN_TRY(statement query,
            db_->prepare("SELECT state, drop_reason, step - 1 - v_min, v_min < v_max, count(*) "
                         "FROM samples WHERE id >= ? AND id <= ? GROUP BY 1, 2, 3, 4"));
  query.bind(1, first).bind(2, last);
  while (true) {
    QUERN_TRY(const bool row, query.next());
    if (!row) return {};
    QUERN_TRY(const sample_state state, parse_sample_state(query.text(0)));
    const std::int64_t count = query.integer(4);
    sum.counts.by_state[static_cast<std::size_t>(state)] += count;
    if (state == sample_state::dropped) sum.drop_reasons[query.text(1)] += count;
    if (state != sample_state::consumed && state != sample_state::trained) continue;
    sum.ages.by_age[query.integer(2)] += count;
    if (query.integer(3) != 0) sum.ages.mixed += count;
  }
}

base::expected<sample_totals> sample_reader::totals() const {
  sample_totals sum;
  std::int64_t last_birth = 0, last_id = 0;
  {
    QUERN_TRY(const moment now, moment::of(*db_));
    QUERN_TRY(last_birth, ask_one_number(*db_, "SELECT max(seq) FROM events WHERE old IS NULL"));
    QUERN_TRY(last_id, last_sample());
    // Where a row is missing at the end, its event is there.
    QUERN_TRY(
        const std::int64_t born,
        ask_one_number(*db_, fmt::format("SELECT sample FROM events WHERE seq = {}", last_birth)));
    last_id = std::max(last_id, born);
  }
  QUERN_TRY(sum.counts.issued_ever, count_births(last_birth));
  for (std::int64_t first = 0; first <= last_id; first += stretch_)
    QUERN_CHECK(add_stretch(sum, first, std::min(first + stretch_ - 1, last_id)));
  return sum;
}

}  // namespace quern::storage
