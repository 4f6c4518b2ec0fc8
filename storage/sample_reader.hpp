// What people ask of a run's samples, while it goes on or later: rows in pages, and all that is
// known of one sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/archive.hpp"
#include "storage/ledger.hpp"

namespace quern::storage {

/// A sample in a list.
struct listed_sample {
  sample_row row;
  std::int64_t group_seq = 0;
  std::string task;
  /// The verdict that decided it, else the newest since it was last issued.
  std::optional<stored_verdict> verdict;
};

struct incarnation_row {
  std::int64_t id = 0;
  std::int64_t from_version = 0;
  std::string reason;
  base::nanoseconds_t t_ns = 0;
};

struct dated_checkpoint {
  std::int64_t version = 0;
  std::int64_t incarnation = 0;
};

/// All that run.db knows of one sample, as of one moment.
struct sample_record {
  sample_row row;
  group_row group;
  std::vector<event_row> events;         ///< in order
  std::vector<stored_verdict> verdicts;  ///< all attempts of all incarnations, in order
  std::vector<variant> exemplars;        ///< that its prompt showed, in its order
  /// Its kernel in the archive, whoever wrote it first; none: it is not there.
  std::optional<variant> kernel;
  std::vector<incarnation_row> incarnations;
  std::vector<dated_checkpoint> checkpoints;  ///< also those that were lost since
  /// The newest version when its group was issued; none: a rollback took the rows away that told.
  std::optional<std::int64_t> issued_at;
};

/// Sums over all samples that had been issued at one moment. Samples that change while they are
/// counted are counted once, in their old state or in the new one.
struct sample_totals {
  state_counts counts;
  std::map<std::string, std::int64_t> drop_reasons;
  age_counts ages;
};

/// Reads run.db over a connection of its own. Each call reads a page, or one sample, and leaves no
/// read transaction open, so that the writer's log can be emptied between any two calls. One thread
/// at a time. Errors: those of `database::open`; corrupt; not_found where a sample is not there.
class sample_reader {
 public:
  /// Rows of a page of samples, and events that one read looks through: milliseconds each.
  static constexpr int usual_page = 256;
  static constexpr std::int64_t usual_stretch = 100'000;

  static base::expected<sample_reader> open(const std::filesystem::path& db, int page = usual_page,
                                            std::int64_t stretch = usual_stretch);

  /// The samples with the highest ids below `id`, the highest first; at most a page.
  [[nodiscard]] base::expected<std::vector<listed_sample>> below(std::int64_t id) const;
  /// Samples that gradient step `step` used, with ids above `id`, the lowest first; at most a page.
  [[nodiscard]] base::expected<std::vector<listed_sample>> of_step(std::int64_t step,
                                                                   std::int64_t id) const;

  /// The highest id of a sample; 0: none was issued.
  [[nodiscard]] base::expected<std::int64_t> last_sample() const;
  /// The newest gradient step that survives and used samples; 0: none did.
  [[nodiscard]] base::expected<std::int64_t> last_step() const;
  /// Ids of the tasks that groups were issued of, in alphabetical order.
  [[nodiscard]] base::expected<std::vector<std::string>> tasks() const;
  [[nodiscard]] base::expected<sample_record> sample(std::int64_t id) const;
  /// What `ledger::counts`, `drop_reasons` and `ages` say, in stretches.
  [[nodiscard]] base::expected<sample_totals> totals() const;
  /// Where the run stands. Errors: those of the ledger.
  [[nodiscard]] base::expected<ledger_position> position() const { return ledger_->position(); }

 private:
  sample_reader() = default;
  [[nodiscard]] base::expected<std::vector<listed_sample>> page_of(std::string_view which,
                                                                   std::int64_t bound,
                                                                   std::int64_t step) const;
  /// The number of the event with which a sample was issued first.
  [[nodiscard]] base::expected<std::int64_t> birth_of(std::int64_t id) const;
  /// Up to the newest event, whose number it returns.
  base::expected<std::int64_t> read_events(sample_record& found, std::int64_t birth) const;
  /// What stands in other tables, and events after `seen`, as of one moment.
  base::status read_rows(sample_record& found, std::int64_t seen) const;
  base::status read_variants(sample_record& found) const;
  base::status read_incarnations(sample_record& found) const;
  base::status read_issuing(sample_record& found) const;
  [[nodiscard]] base::expected<std::int64_t> count_births(std::int64_t last) const;
  base::status add_stretch(sample_totals& sum, std::int64_t first, std::int64_t last) const;

  std::unique_ptr<database> db_;
  std::unique_ptr<ledger> ledger_;  ///< over `db_`
  int page_ = usual_page;
  std::int64_t stretch_ = usual_stretch;
};

}  // namespace quern::storage
