// The reference texts, run by LibTorch in the real reference runner, compute what the interpreter
// says: every operator alone and drawn compositions of every family.
#include <cmath>
#include <cstring>

#include "env/grammar/draw.hpp"
#include "env/grammar/kernel_lab.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/runner/reference_service.hpp"
#include "support/tensor_task.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

env::reference_service& service() {
  static auto started = env::reference_service::start(test::program_dir() / "quern-torch",
                                                      env::sandbox_mode::best_effort)
                            .value();
  return *started;
}

std::vector<std::byte> bytes_of(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Checks one case in both precisions.
void compare(env::reference_runner& runner, const env::composition& what, const env::task& of,
             const test::lab_inputs& in) {
  const auto at = env::instantiate(of, std::vector<std::int64_t>{in.n, in.m}).value();
  std::vector<std::vector<std::byte>> inputs;
  for (const auto& layout : at.inputs)
    inputs.push_back(bytes_of(layout.name == "x" ? in.x : layout.name == "w" ? in.w : in.t));
  const auto want = interpret(what, in.view());
  const auto wide = values_of<double>(runner.run(at, inputs, true).value()[0]);
  REQUIRE(wide.size() == want.size());
  std::size_t apart = 0;
  for (std::size_t k = 0; k < want.size(); ++k)
    if (!(std::fabs(wide[k] - want[k]) <= 1e-9 * (1 + std::fabs(want[k])))) ++apart;
  CHECK(apart == 0);
  const auto narrow = values_of<float>(runner.run(at, inputs, false).value()[0]);
  CHECK(test::count_wrong(of, want, narrow) == 0);
}

}  // namespace

TEST_CASE("every operator's line computes what the interpreter says") {
  for (int kind = 0; kind < env::step_kind_count; ++kind) {
    env::composition_step step{static_cast<env::step_kind>(kind), 0};
    if (has_constant(step.kind)) step.constant = -1.5F;
    const env::composition what{{step}};
    INFO(to_text(what));
    env::task of = env::bare_task(what);
    test::edit_tensors(of).cost = {env::size_expr(1), env::size_expr(1)};
    of.tolerance = {1e-4, 1e-4};
    auto runner = service().open(env::reference_text(what), -1).value();
    const std::vector<env::distribution> normal(env::tensors_of(of).inputs.size(),
                                                env::distribution::normal);
    compare(runner, what, of, test::make_inputs(of, 7, 33, normal, 5));
  }
}

TEST_CASE("and so do whole compositions on everything that their tasks judge") {
  for (const std::string_view family : env::all_families()) {
    env::draw_limits limits;
    limits.families = {{std::string(family), 1.0}};
    for (std::uint64_t k = 0; k < 2; ++k) {
      const env::composition what = env::draw_composition(61, k, limits);
      INFO(to_text(what));
      const env::task of = env::make_task(what, {0, &env::cpp_lane}).value();
      auto runner = service().open(of.reference, -1).value();
      for (const auto& inputs : test::judged_inputs(of, k))
        compare(runner, what, of, inputs);
    }
  }
}
