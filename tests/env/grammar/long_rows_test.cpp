// Tolerances come from short rows, and tasks are timed on long ones: what adds up a row in order is
// right there, too, whatever the content.
#include "env/grammar/long_rows.hpp"

#include "env/grammar/draw.hpp"
#include "env/grammar/probe.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;

TEST_CASE("kernels that sum in order are right on timed rows of every distribution") {
  for (const env::lane* lane : {&env::cpp_lane, &env::cuda_lane})
    for (std::uint64_t k = 0; k < 200; ++k) {
      const env::composition what = env::draw_composition(11, k, {});
      const env::task made = env::make_task(what, {0, lane}).value();
      CAPTURE(made.name);
      CHECK(env::tensors_of(made).sizes[1] <= env::longest_row);
      CHECK(worst_long_row_error(what, made, 4) <= 1);
    }
}

TEST_CASE("a sum that cancels on long rows convicts no right kernel") {
  // x is constant and w sorted, which short rows allow: sums grow to 700 and come back to next to
  // nothing.
  const env::composition what = env::parse_composition("sigmoid | times_row | running_sum").value();
  env::task made = env::make_task(what, {0, &env::cuda_lane}).value();
  CHECK(worst_long_row_error(what, made, 100) <= 1);
  // The control: the tolerance that short rows alone ask for.
  made.tolerance.atol = 0.00034;
  CHECK(worst_long_row_error(what, made, 100) > 1);
}
