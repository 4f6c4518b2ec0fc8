// Which samples of a run a person wants to see.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "env/verdict/verdict.hpp"
#include "storage/sample_reader.hpp"

namespace quern::actors {

struct sample_choice {
  enum class order {
    as_issued,
    best,  ///< the highest reward first, of equal ones the highest speed-up; only samples with one
    worst  ///< the lowest reward first, of equal ones the lowest speed-up; only samples with one
  };
  std::optional<std::int64_t> step = std::nullopt;  ///< only those that this gradient step used
  std::string task = "";  ///< only of this task, by name or id; empty: of all
  std::optional<env::verdict_kind> verdict = std::nullopt;  ///< only with this one
  order by = order::as_issued;
  std::int64_t limit = 50;  ///< at least 1
};

struct chosen_samples {
  std::vector<storage::listed_sample> samples;
  std::optional<std::int64_t> step;  ///< that all of them were used by
  bool ranked = false;               ///< by reward, not in the order of issue
  std::int64_t left_out = 0;         ///< samples that fit, beyond the limit
  bool more = false;                 ///< there may be more than `left_out` says
};

/// Without a step, a task, a verdict or another order: the samples of the newest gradient step;
/// where there is none, the newest samples. Else those that fit: without a step the newest ones of
/// the run, in the order in which they were issued. Reads in pages. Errors: not_found for a step
/// or task that the run does not have, naming what there is; those of `sample_reader`.
base::expected<chosen_samples> choose_samples(const storage::sample_reader& reader,
                                              const sample_choice& choice);

}  // namespace quern::actors
