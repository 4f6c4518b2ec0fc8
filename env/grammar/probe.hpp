// A composition on small inputs of every distribution that its task will use: is it worth a task,
// how exact is it in single precision, and would a mistake be seen?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/task/distribution.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// Deterministic: the inputs are addressed by fixed numbers. Immutable after construction,
/// thread-safe.
class composition_probe {
 public:
  /// `what` is valid.
  explicit composition_probe(composition what);

  const composition& subject() const { return subject_; }

  /// Empty when it makes a good task, else why not: "constant output", "input w hardly matters",
  /// "not finite", "ill-conditioned".
  const std::string& objection() const { return objection_; }

  /// Of the timed distribution (normal) and the four hidden ones, in this order: those on which
  /// single precision is exact enough for one tolerance.
  const std::vector<distribution>& distributions() const { return distributions_; }

  /// atol and rtol such that a float kernel that sums in order is within an eighth of it.
  const env::tolerance& tolerance() const { return tolerance_; }

  /// The approximations of math_kind::fast stay within half the tolerance.
  bool fast_is_safe() const { return fast_is_safe_; }

  /// Whether the hidden inputs tell `other` from the subject by at least four tolerances somewhere.
  /// False when the outputs have different sizes or the operands differ, since such a mistake could
  /// not be written.
  bool reveals(const composition& other) const;

 private:
  struct sample;
  composition subject_;
  std::string objection_;
  std::vector<distribution> distributions_;
  env::tolerance tolerance_;
  bool fast_is_safe_ = false;
};

}  // namespace quern::env
