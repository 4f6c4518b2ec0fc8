#include "actors/orchestrator/search_start.hpp"

#include <cmath>
#include <map>

#include "base/hash.hpp"

namespace quern::actors {
namespace {

std::int64_t speedup_e2_of(std::int64_t log_e9) {
  return std::llround(100 * std::exp(static_cast<double>(log_e9) * 1e-9));
}

/// Whether this verdict is the one by which the archive came to know its kernel.
base::expected<bool> is_first_of_kernel(const storage::archive& archive, const env::verdict& value,
                                        std::int64_t verdict_id) {
  QUERN_TRY(const base::hash128 source, base::parse_hash(value.source));
  QUERN_TRY(const auto known,
            archive.find({value.task, value.device_class, value.protocol}, source));
  return known && known->verdict_id == verdict_id;
}

/// Samples that were given up for what their last attempt ended with, by its name.
base::expected<std::map<std::string, std::int64_t>> unjudged_by_reason(
    const storage::ledger& ledger) {
  QUERN_TRY(auto reasons, ledger.drop_reasons());
  std::erase_if(reasons, [](const auto& entry) {
    const auto kind = env::parse_verdict_kind(entry.first);
    return !kind || env::judges_candidate(*kind);
  });
  return reasons;
}

}  // namespace

found_kernel found_kernel_of(const env::verdict& value, sample_id id) {
  found_kernel kernel;
  kernel.sample = id;
  kernel.speedup_e2 = value.speedup_e2.value_or(0);
  if (value.time && value.time->log_ratio_e9.size() == 3) {
    kernel.low_e2 = speedup_e2_of(value.time->log_ratio_e9.front());
    kernel.high_e2 = speedup_e2_of(value.time->log_ratio_e9.back());
  }
  return kernel;
}

base::expected<std::int64_t> evaluations_spent(const storage::ledger& ledger) {
  search_book book;
  QUERN_TRY(const auto unjudged, unjudged_by_reason(ledger));
  for (const auto& [reason, count] : unjudged)
    book.ended(reason, count);
  QUERN_TRY(const std::int64_t judged, ledger.judged());
  return judged + book.spent();
}

base::expected<search_book> search_so_far(const run_config& config, const storage::ledger& ledger,
                                          const storage::archive& archive, std::int64_t tasks) {
  search_book book(config.run.budget_evaluations, config.algorithm.group_size, tasks);
  const auto visit = [&](const storage::stored_verdict& one) -> base::status {
    QUERN_TRY(const env::verdict value, env::parse_verdict(one.row.json));
    book.ended(env::name_of(value.kind));
    if (value.kind != env::verdict_kind::ok) return {};
    QUERN_TRY(const bool first, is_first_of_kernel(archive, value, one.id));
    if (first) book.found(value.task, found_kernel_of(value, one.row.sample));
    return {};
  };
  QUERN_CHECK(ledger.visit_judged(visit));
  QUERN_TRY(const auto unjudged, unjudged_by_reason(ledger));
  for (const auto& [reason, count] : unjudged)
    book.ended(reason, count);
  return book;
}

}  // namespace quern::actors
