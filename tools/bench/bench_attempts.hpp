// The candidates of each task with their verdicts: what figures over samples are made from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "env/measure/protocols.hpp"
#include "env/task/suite.hpp"
#include "env/verdict/verdict.hpp"
#include "tools/bench/candidates.hpp"
#include "tools/bench/results.hpp"

namespace quern::tools {

/// One candidate of a task.
struct bench_attempt {
  std::string candidate;                  ///< its id
  std::int64_t sample = 0;                ///< its number among those of its task, from 0
  const env::verdict* verdict = nullptr;  ///< of the result; null: it has none
};

/// For each member of a suite its candidates, by sample.
using task_attempts = std::vector<std::vector<bench_attempt>>;

/// A candidate that came without a number of its own (bench_candidate::sample) gets one behind
/// those that did, in the order given. `results` must outlive what is returned.
task_attempts attempts_of(const env::suite& suite, std::span<const bench_candidate> candidates,
                          std::span<const bench_result> results);

/// Largest number of candidates of a task.
std::int64_t most_attempts(const task_attempts& attempts);

/// Whether the verdict says that the source was built: all that came behind the compiler, right or
/// not. False for verdicts about the host or the task (infra_error, invalid_reference).
bool is_compiled(const env::verdict& v);

/// A verdict `ok`. What could not be measured (noisy, unconfirmed) is not called correct.
bool is_correct(const env::verdict& v);

/// Mean, deviation, least and largest of the means of the verdict's buckets (seven, consecutive in
/// time), in ms to three significant digits. Nothing where it was not timed.
std::optional<env::run_statistics> candidate_ms(const env::verdict& v);
std::optional<env::run_statistics> baseline_ms(const env::verdict& v);

}  // namespace quern::tools
