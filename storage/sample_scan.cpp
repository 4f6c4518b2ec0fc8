#include "storage/sample_scan.hpp"

#include "storage/ledger_sql.hpp"

namespace quern::storage {
namespace {

base::expected<scanned_sample> read_scanned(const statement& row) {
  scanned_sample sample;
  sample.id = row.integer(0);
  sample.task = row.text(1);
  QUERN_TRY(sample.state, parse_sample_state(row.text(2)));
  sample.v_min = row.maybe_integer(3);
  sample.reward = row.maybe_real(4);
  sample.step = row.maybe_integer(5);
  sample.drop_reason = row.text(6);
  QUERN_TRY(sample.source_hash, row.maybe_hash(7));
  sample.verdict_id = row.maybe_integer(8);
  sample.speedup_e2 = row.maybe_integer(9);
  sample.verdict = row.text(10);
  return sample;
}

/// The one number that a question asks for; frees its cursor.
base::expected<std::optional<std::int64_t>> ask_number(statement& question) {
  QUERN_TRY(const bool row, question.next());
  const auto answer = row ? question.maybe_integer(0) : std::nullopt;
  question.reset();
  return answer;
}

}  // namespace

base::expected<sample_scan> sample_scan::make(database& db, const std::string& verdict_key) {
  sample_scan made;
  // A verdict that is no JSON has no key: json_extract alone would end the whole stretch.
  QUERN_TRY(made.stretch_,
            db.prepare("SELECT s.id, g.task, s.state, s.v_min, s.reward, s.step, s.drop_reason, "
                       "s.source_hash, s.verdict_id, v.speedup_e2, "
                       "CASE WHEN json_valid(v.json) THEN json_extract(v.json, ?3) END "
                       "FROM samples AS s JOIN groups AS g ON g.id = s.grp "
                       "LEFT JOIN verdicts AS v ON v.id = s.verdict_id "
                       "WHERE s.id >= ?1 ORDER BY s.id LIMIT ?2"));
  made.stretch_.bind(3, "$." + verdict_key);
  QUERN_TRY(made.incarnation_, db.prepare("SELECT max(id) FROM incarnations"));
  QUERN_TRY(made.checkpoint_, db.prepare(fmt::format(
                                  "SELECT max(version) FROM checkpoints AS c WHERE {}", survives)));
  QUERN_TRY(made.text_, db.prepare("SELECT text_hash FROM variants WHERE task = ? AND "
                                   "source_hash = ? LIMIT 1"));
  QUERN_TRY(made.verdict_, db.prepare("SELECT json FROM verdicts WHERE id = ?"));
  return made;
}

base::expected<std::vector<scanned_sample>> sample_scan::from(std::int64_t first,
                                                              std::int64_t most) {
  std::vector<scanned_sample> samples;
  stretch_.bind(1, first).bind(2, most);
  while (true) {
    const auto row = stretch_.next();
    if (!row) return tl::make_unexpected(row.error());
    if (!*row) return samples;
    auto sample = read_scanned(stretch_);
    if (!sample) {
      stretch_.reset();
      return tl::make_unexpected(sample.error());
    }
    samples.push_back(std::move(*sample));
  }
}

base::expected<std::int64_t> sample_scan::incarnation() {
  QUERN_TRY(const auto newest, ask_number(incarnation_));
  return newest.value_or(0);
}

base::expected<std::int64_t> sample_scan::checkpoint() {
  QUERN_TRY(const auto newest, ask_number(checkpoint_));
  return newest.value_or(-1);
}

base::expected<std::optional<base::hash128>> sample_scan::text_of(const std::string& task,
                                                                  const base::hash128& source) {
  QUERN_TRY(const bool row, text_.bind(1, task).bind(2, source).next());
  auto hash = row ? text_.maybe_hash(0) : std::optional<base::hash128>();
  text_.reset();
  return hash;
}

base::expected<std::string> sample_scan::verdict_json(std::int64_t id) {
  QUERN_TRY(const bool row, verdict_.bind(1, id).next());
  std::string text = row ? verdict_.text(0) : std::string();
  verdict_.reset();
  if (!row) return base::fail(base::errc::not_found, "there is no verdict {}", id);
  return text;
}

}  // namespace quern::storage
