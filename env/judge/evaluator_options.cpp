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

}  // namespace quern::env
