// Names of KernelBench: the files in which a run of it keeps what a model wrote, and the places of
// a suite's tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "env/task/suite.hpp"

namespace quern::tools {

/// What `level_<level>_problem_<problem>_sample_<sample>_kernel.py` says.
struct kernelbench_sample {
  int level = 0, problem = 0, sample = 0;
  friend bool operator==(const kernelbench_sample&, const kernelbench_sample&) = default;
};

/// Whether a file's name is meant as one of KernelBench: it begins and ends as
/// such a name, and has `problem_` in it.
bool is_kernelbench_name(std::string_view name);

/// Numbers are whole, of at most nine digits and without leading zeros, so that two names never
/// mean one sample. Error: invalid_argument, with the name and the form.
base::expected<kernelbench_sample> parse_kernelbench_name(std::string_view name);

/// Which tasks of a suite stand where in KernelBench. The suite must outlive it.
class suite_places {
 public:
  explicit suite_places(const env::suite& suite);

  /// Index of the member there. Errors: not_found, saying whether the suite has places at all;
  /// invalid_argument where two tasks stand there, with both names.
  [[nodiscard]] base::expected<std::size_t> member_at(int level, int problem) const;

  /// Nothing where every task has a place of its own. Error: invalid_argument, naming a task that
  /// has none, or two that share one.
  [[nodiscard]] base::status check_all() const;

  /// The suite's levels, ascending.
  [[nodiscard]] std::vector<int> levels() const;

 private:
  const env::suite& suite_;
  std::map<std::pair<int, int>, std::vector<std::size_t>> members_;
};

}  // namespace quern::tools
