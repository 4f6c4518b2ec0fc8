#include "env/grammar/long_rows.hpp"

#include <algorithm>
#include <cmath>

#include "env/grammar/kernel_lab.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::test {
namespace {

double error_in_tolerances(const env::composition& what, const env::task& of,
                           const lab_inputs& inputs) {
  const auto exact = interpret(what, inputs.view());
  const auto single = interpret(what, inputs.view(), env::arithmetic::single);
  double worst = 0;
  for (std::size_t at = 0; at < exact.size(); ++at) {
    const double limit = of.tolerance.atol + of.tolerance.rtol * std::fabs(exact[at]);
    worst = std::max(worst, std::fabs(single[at] - exact[at]) / limit);
  }
  return worst;
}

}  // namespace

double worst_long_row_error(const env::composition& what, const env::task& of,
                            std::uint64_t contents) {
  const std::int64_t columns = env::tensors_of(of).sizes[1];
  double worst = 0;
  for (int round = -1; round < env::hidden_rounds(of); ++round) {
    const auto kinds =
        round < 0 ? env::timed_distributions(of) : env::hidden_distributions(of, round);
    for (std::uint64_t seed = 1; seed <= contents; ++seed)
      worst =
          std::max(worst, error_in_tolerances(what, of, make_inputs(of, 1, columns, kinds, seed)));
  }
  return worst;
}

}  // namespace quern::test
