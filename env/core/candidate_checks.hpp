// Correctness of a candidate in its process: hidden cases, poison, canaries, determinism,
// quiescence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "env/core/core_process.hpp"
#include "env/core/core_task.hpp"
#include "env/runner/arena.hpp"
#include "env/runner/link.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// Most scratch that a candidate may ask for, bytes.
inline constexpr std::int64_t max_workspace_bytes = std::int64_t{256} << 20;

/// Memory of one instance in a candidate: inputs (file 0), outputs (file 1), workspace (file 2).
struct candidate_memory {
  std::optional<tensor_arena> inputs, outputs, workspace;
  std::uint64_t input_address = 0, output_address = 0, workspace_address = 0;  // in the child
  runner::call_plan plan;
};

/// Checks one candidate process. Thread-compatible. After the first finding that is not ok the
/// process is of no more use.
class candidate_checker {
 public:
  /// `process` outlives it. Limits are for one question.
  candidate_checker(core_process& process, question_limits limits)
      : process_(process), limits_(limits) {}

  /// Loads the artefact, a path that the process can read. Its code may run there already.
  finding load(const std::string& artefact);

  /// Every case of one size, in the same memory, each on two poison patterns in turn; the first
  /// case again at the end, twice, must give the same bits (A, B, A, A).
  finding check_size(const expected_size& size, const output_limits& limit,
                     std::vector<check_result>& checks);

  /// The same at the timed sizes; sets call_ns() from the last call, which follows one like it.
  finding probe(const expected_size& timed, const output_limits& limit,
                std::vector<check_result>& checks);

  /// Maps memory for `slots` calls of an instance and asks for the workspace. `inputs`: an arena
  /// that others read too; none: the candidate gets its own.
  finding prepare(const task_instance& instance, std::int64_t slots, const tensor_arena* inputs,
                  candidate_memory& memory);

  /// What a failed question means; `stage` names timeouts ("verify"). Ends the process when it is
  /// gone or stuck.
  finding explain(const runner_failure& failure, const candidate_memory* memory,
                  const task_instance* instance, const std::string& stage);

  /// After an answered run: no thread but one, no message, no canary of these slots touched, and no
  /// CPU time used since `cpu_after`. An answer is late when more than the little that going to
  /// sleep takes was used between it and the next question, as far as check_quiet() or
  /// check_still_quiet() saw it; late_write is said of a quarter of all answers (and at least
  /// three of them).
  finding check_quiet(const candidate_memory& memory, const task_instance& instance,
                      std::int64_t slots, std::int64_t cpu_after);

  /// Just before the next question, with the CPU clock as it is then: work that was put off until
  /// after check_quiet() makes the answer late, too. Does nothing where the last question was not a
  /// run that check_quiet() looked at. prepare() does the same before it asks anything.
  finding check_still_quiet(std::int64_t cpu_now);

  [[nodiscard]] double call_ns() const { return call_ns_; }
  /// For a fresh process of a candidate that another one has probed.
  void expect_call_ns(double ns) { call_ns_ = ns; }

 private:
  finding run_case(const expected_size& size, std::size_t index, int poison,
                   const output_limits& limit, candidate_memory& memory);
  /// Counts the last answer as late, once, when so much was used since.
  finding count_late(std::int64_t cpu_now);
  /// The calls of expected_size::in_a_row, as one question.
  finding run_in_a_row(const expected_size& size, const output_limits& limit,
                       const std::string& label, std::vector<check_result>& checks);
  finding run_cases(const expected_size& size, const output_limits& limit, const std::string& label,
                    std::vector<check_result>& checks);

  core_process& process_;
  question_limits limits_;
  bool has_workspace_ = false;
  double call_ns_ = 0;
  std::int64_t cpu_at_answer_ = -1;  ///< -1: no answer to look at
  bool counted_late_ = false;        ///< the last answer
  int answers_ = 0;
  int late_answers_ = 0;
};

/// Fills an output with poison pattern 0 (NaN, or -1) or 1 (a large finite number).
void poison(std::span<std::byte> bytes, int pattern);

}  // namespace quern::env
