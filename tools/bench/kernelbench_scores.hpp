// KernelBench's figures: its arithmetic, step by step, so that equal inputs give equal bits. Pure
// functions. Source: `score` and `eval_from_generations` of ScalingIntelligence/KernelBench.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace quern::tools {

/// The p at which KernelBench's analysis tells fast_p.
inline constexpr std::array<double, 6> kernelbench_thresholds = {0, 0.5, 0.8, 1, 1.5, 2};

/// One problem of a set. Times in ms; one of -1 was not measured.
struct scored_problem {
  bool correct = false;
  double baseline_ms = -1, runtime_ms = -1;
};

/// count / total; 0 for a total of 0. Compile rate and correctness rate.
double rate_of(std::int64_t count, std::int64_t total);

/// Geometric mean of baseline_ms / runtime_ms of the correct ones; 0 where none is correct. A
/// product and a root, as theirs is: an odd number of correct problems with a runtime of -1 makes
/// it NaN, and very many large quotients make it infinite.
double geometric_mean_of_correct(std::span<const scored_problem> problems);

/// Share of all problems that are correct with baseline_ms / runtime_ms above p (not equal to it);
/// 0 for no problems.
double fast_p(std::span<const scored_problem> problems, double p);

/// Chance that at least one of k samples, drawn without putting back, is among the `correct` of
/// `samples`: 1 - prod(1 - k/i) for i = samples - correct + 1 .. samples. 0 <= correct <= samples,
/// 1 <= k <= samples.
double pass_at_k(std::int64_t samples, std::int64_t correct, std::int64_t k);

/// The k that a report tells where nobody chose: those of 1, 5, 10 and 100 that are at most
/// `most`, the largest number of samples of a problem.
std::vector<std::int64_t> usual_pass_k(std::int64_t most);

}  // namespace quern::tools
