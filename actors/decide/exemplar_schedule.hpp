// From which variants the exemplars of a prompt are chosen, by the step of the run: those of the
// grammar at first, then what the policy wrote, later the best of that.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::actors {

enum class exemplar_source {
  all,    ///< every scored variant of the task
  seeds,  ///< those that were brought along: replay.seed_variants
  own,    ///< those that the policy wrote first
  best    ///< of `own` the highest buckets, as many as a prompt shows variants
};
std::string_view to_string(exemplar_source source);

/// A plain value; any thread.
class exemplar_schedule {
 public:
  /// All variants, at every step.
  exemplar_schedule() = default;

  /// `text` is replay.exemplar_schedule: SOURCE,SOURCE:STEP,... The first source holds from
  /// step 0, each further one from its step, and steps rise. Spaces around parts are allowed.
  /// Errors: invalid_argument, naming the part that is wrong and what is allowed.
  static base::expected<exemplar_schedule> parse(std::string_view text);

  /// The source for a prompt that is sampled by the weights of `version`: that of the last phase
  /// which began at `version` or before.
  [[nodiscard]] exemplar_source at(std::int64_t version) const;

 private:
  struct phase {
    std::int64_t from;
    exemplar_source source;
  };
  std::vector<phase> phases_ = {{0, exemplar_source::all}};  // by rising `from`; the first is 0
};

}  // namespace quern::actors
