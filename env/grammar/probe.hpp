// A composition on small inputs of every distribution that its task will use: is it worth a task,
// how exact is it in single precision, and would a mistake be seen?
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/task/task.hpp"
#include "env/tensor_task/distribution.hpp"

namespace quern::env {

/// The hidden sizes [n, m] of every generated task: odd, so that tails of 2, 4, 8 and 16 are there.
inline constexpr std::array<std::pair<std::int64_t, std::int64_t>, 2> probe_sizes{
    {{7, 33}, {13, 250}}};

/// No grammar makes longer rows (kernel_grammar::sizes).
inline constexpr std::int64_t longest_row = 2048;

/// Deterministic: the inputs are addressed by fixed numbers. Immutable after construction,
/// thread-safe.
class composition_probe {
 public:
  /// `what` is valid.
  explicit composition_probe(composition what);

  [[nodiscard]] const composition& subject() const { return subject_; }

  /// Empty when it makes a good task, else why not: "constant output", "input w hardly matters",
  /// "not finite", "ill-conditioned". What follows holds only when it is empty.
  [[nodiscard]] const std::string& objection() const { return objection_; }

  /// Of input x: the timed distribution (normal) and four hidden ones, those on which single
  /// precision is exact enough for one tolerance: on short rows, and where the composition adds up
  /// rows on long ones. Where fewer than four are, others fill up, and the tolerance grows, at most
  /// to a hundredth of the output's size.
  [[nodiscard]] const std::vector<distribution>& distributions() const { return distributions_; }

  /// The same number of distributions for w and t, milder, so that products stay moderate.
  static std::span<const distribution> operand_distributions();

  /// atol and rtol such that a float kernel that sums in order stays within an eighth of it.
  [[nodiscard]] const env::tolerance& limits() const { return tolerance_; }

  /// The approximations of math_kind::fast stay within half the tolerance.
  [[nodiscard]] bool fast_is_safe() const { return fast_is_safe_; }

  /// Whether the hidden inputs tell `other` from the subject: in some case one element in fifty is
  /// off by four tolerances or more. False for an output of another size and for one that reads an
  /// operand which the subject does not have, since such a mistake could not be written.
  [[nodiscard]] bool reveals(const composition& other) const;

  /// Whether leaving out the last m % 8 columns of every row is seen: always, where they are part
  /// of the output; a sum may hide it, and a maximum is taken to.
  [[nodiscard]] bool reveals_missing_columns() const;

  /// The largest value that h has before the structural step, over all inputs.
  [[nodiscard]] double largest_before_core() const;

 private:
  struct sample {
    std::int64_t n = 0;
    std::int64_t m = 0;
    std::span<const float> x, w, t;  ///< of the process
    std::vector<double> exact;
  };
  [[nodiscard]] sample make_sample(std::pair<std::int64_t, std::int64_t> sizes, distribution of_x,
                                   std::size_t round, std::uint64_t seed) const;

  /// The atol that leaves a float kernel which sums in order `room` times its error on long rows,
  /// over several contents; 0 where the composition adds up no row.
  [[nodiscard]] double long_row_atol(distribution of_x, std::size_t round, double room) const;
  [[nodiscard]] double needed_atol(const sample& at) const;
  [[nodiscard]] std::string find_degeneracy(const sample& at) const;
  void calibrate();

  composition subject_;
  std::string objection_;
  std::vector<distribution> distributions_;
  env::tolerance tolerance_;
  bool fast_is_safe_ = false;
  std::vector<sample> samples_;
};

}  // namespace quern::env
