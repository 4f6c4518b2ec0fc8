#include "env/judge/evaluator_options.hpp"

#include <sys/random.h>

#include "base/program.hpp"

namespace quern::env {

base::status fill_in(evaluator_options& options) {
  if (options.runner_program.empty()) {
    QUERN_TRY(options.runner_program, base::sibling_program("quern-runner"));
  }
  if (options.reference_program.empty()) {
    QUERN_TRY(options.reference_program, base::sibling_program("quern-torch"));
  }
  if (options.input_seed) return {};
  std::uint64_t drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != static_cast<ssize_t>(sizeof drawn))
    return base::fail_errno("getrandom");
  options.input_seed = drawn;
  return {};
}

base::status check_measuring(const evaluator_options& options) {
  if (!(options.time_budget_s > 0))
    return base::fail(base::errc::invalid_argument, "time_budget_s {} is not positive",
                      options.time_budget_s);
  if (!(options.precision > 0 && options.precision <= 0.06))
    return base::fail(base::errc::invalid_argument, "precision {} is not within (0, 0.06]",
                      options.precision);
  if (!(options.noise_limit >= options.precision && options.noise_limit <= 0.5))
    return base::fail(base::errc::invalid_argument,
                      "noise_limit {} is not between the precision {} and 0.5", options.noise_limit,
                      options.precision);
  return {};
}

}  // namespace quern::env
