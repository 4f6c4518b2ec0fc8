// Tolerances come from short rows, and tasks are timed on long ones: what adds up a row in order is
// right there, too, whatever the content.
#include <algorithm>
#include <cmath>

#include "env/grammar/draw.hpp"
#include "env/grammar/interpret.hpp"
#include "env/grammar/probe.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/tensor_task/fill.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;

namespace {

std::vector<float> filled(std::vector<std::int64_t> shape, env::distribution kind,
                          std::uint64_t seed, std::uint32_t input) {
  env::tensor_layout layout;
  layout.shape = std::move(shape);
  for (const std::int64_t extent : layout.shape)
    layout.elements *= extent;
  layout.bytes = layout.elements * static_cast<std::int64_t>(sizeof(float));
  std::vector<float> values(static_cast<std::size_t>(layout.elements));
  REQUIRE(env::fill_input(layout, kind, {seed, input, 1000},
                          std::as_writable_bytes(std::span(values))));
  return values;
}

/// The largest error of a float kernel that sums in order, in tolerances of `of`, on one row of its
/// timed length. Inputs have distribution number `k` of theirs, x has `of_x`.
double worst_error(const env::composition& what, const env::task& of, env::distribution of_x,
                   std::size_t k, std::uint64_t contents) {
  const env::tensor_body& body = env::tensors_of(of);
  const std::int64_t m = body.sizes[1];
  const env::distribution operand = env::composition_probe::operand_distributions()[k];
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= contents; ++seed) {
    const auto x = filled({1, m}, of_x, seed, 0);
    const auto w = uses_row(what) ? filled({m}, operand, seed, 1) : std::vector<float>();
    const auto t = uses_tensor(what) ? filled({1, m}, operand, seed, 2) : std::vector<float>();
    const env::composition_inputs inputs{1, m, x, w, t};
    const auto exact = interpret(what, inputs);
    const auto single = interpret(what, inputs, env::arithmetic::single);
    for (std::size_t at = 0; at < exact.size(); ++at) {
      const double limit = of.tolerance.atol + of.tolerance.rtol * std::fabs(exact[at]);
      worst = std::max(worst, std::fabs(single[at] - exact[at]) / limit);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("kernels that sum in order are right on timed rows of every hidden distribution") {
  for (const env::lane* lane : {&env::cpp_lane, &env::cuda_lane})
    for (std::uint64_t k = 0; k < 200; ++k) {
      const env::composition what = env::draw_composition(11, k, {});
      const env::task made = env::make_task(what, {0, lane}).value();
      CAPTURE(made.name);
      CHECK(env::tensors_of(made).sizes[1] <= env::longest_row);
      const auto& of_x = env::tensors_of(made).inputs[0].dists;
      for (std::size_t round = 0; round < of_x.size(); ++round) {
        CAPTURE(round);
        CHECK(worst_error(what, made, of_x[round], round, 4) <= 1);
      }
    }
}

TEST_CASE("a sum that cancels on long rows convicts no right kernel") {
  // x is constant and w sorted, which short rows allow: sums grow to 700 and come back to next to
  // nothing.
  const env::composition what = env::parse_composition("sigmoid | times_row | running_sum").value();
  const auto error_with = [&](double atol) {
    env::task made = env::make_task(what, {0, &env::cuda_lane}).value();
    const auto of_x = env::tensors_of(made).inputs[0].dists;
    REQUIRE(of_x.size() == 5);
    if (atol > 0) made.tolerance.atol = atol;
    double worst = 0;
    for (std::size_t round = 0; round < of_x.size(); ++round)
      worst = std::max(worst, worst_error(what, made, of_x[round], round, 100));
    return worst;
  };
  CHECK(error_with(0) <= 1);
  // The control: the tolerance that short rows alone ask for.
  CHECK(error_with(0.00034) > 1);
}
