// Judging files of the catalogue: a verdict, and what it is worth beside an honest kernel's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/benchmarks/bench_gpu.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"

namespace quern::tools {

struct judged_file {
  env::verdict judged;
  hostile_outcome outcome = hostile_outcome::undecided;
  std::optional<std::int64_t> twin_e2;
  int tries = 0;
};

/// What honest kernels claim in this session, by file and whether they ran as host-entry.
class twin_speeds {
 public:
  /// Every twin that a file of `list` names, in the form in which that file runs.
  twin_speeds(env::cuda_evaluator& with, const gpu_bench_options& o,
              const std::vector<candidate_file>& list);
  [[nodiscard]] std::optional<std::int64_t> of(const candidate_file& f) const;
  /// Measured again, with `with`.
  [[nodiscard]] std::optional<std::int64_t> again(env::cuda_evaluator& with,
                                                  const candidate_file& f) const;

 private:
  struct twin {
    candidate_file file;
    std::optional<std::int64_t> speedup_e2;
  };
  static std::pair<std::string, bool> key_of(const candidate_file& f);
  std::map<std::pair<std::string, bool>, twin> twins_;
};

/// Asks again where the verdict says nothing about the candidate, three times in all; where `ok`
/// claims more than its twin, both are measured a second time. Safe beside others on evaluators of
/// their own.
judged_file judge_file(env::cuda_evaluator& with, const candidate_file& f,
                       const env::evaluation_request& request, const twin_speeds& twins);

/// "  ref 12.3 us, cand 11.0 us, x1.12 (twin x1.10)"; empty where nothing was timed.
std::string times_text(const judged_file& j);

}  // namespace quern::tools
