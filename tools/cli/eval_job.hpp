// What one evaluation of `quern eval` is made of, whether a command line or a line of a request
// asks for it.
#pragma once

#include <optional>
#include <string>

#include "env/judge/evaluator_options.hpp"
#include "env/task/find_tasks.hpp"
#include "env/task/task_source.hpp"
#include "tools/cli/measure_options.hpp"

namespace quern::tools {

/// Longest text of a candidate.
inline constexpr std::size_t max_candidate_bytes = std::size_t{1} << 20;

struct eval_arguments {
  std::string task;       ///< a task file, a shipped task's name, or a task of others
  std::string candidate;  ///< a C++ or CUDA C++ file; "-": standard input
  bool explain = false;   ///< all evidence
  bool json = false;  ///< the verdict (docs/formats/verdict.md) on one line, nothing else on stdout
  bool strict = false;  ///< a verdict other than `ok` is a failure
  bool verify_only = false;
  bool screen = true;        ///< false: the sandbox alone decides
  bool best_effort = false;  ///< run with fewer sandbox layers than `required`
  double budget_s = 0;       ///< 0: the protocol's own length, else half a second
  double timeout_s = 0;      ///< of the whole evaluation; 0: the limits of its stages alone
  std::string suite;         ///< folder whose suite.yaml holds; empty: that beside the task
  env::source_options tasks;
  measure_options measuring;
  int core = -1;
  std::optional<int> gpu;
};

/// What the suite says, and the options on top.
struct eval_terms {
  env::measure_name measured;
  env::suite_policy policy;
  double recheck_above = 0;
};

/// Errors: invalid_argument, or what find_tasks() says of the suite.
base::expected<eval_terms> terms_of(const eval_arguments& a, const env::found_task& found);

/// Of a judge for tasks that are measured like that. A person waits for the answer: a large claim
/// is settled at once.
env::evaluator_options judge_options(const eval_arguments& a, const env::measure_name& measured);

}  // namespace quern::tools
