// References on a device as `quern tasks check` runs them: bytes in and out, f64, cases with
// content made there, times, and references that fail.
#include <cmath>
#include <cstring>

#include "env/gpu/device_oracle.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/check.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/gpu.hpp"

using namespace quern;

namespace {

/// The oracle of all tests; null, with the reason said, where there is no device.
env::reference_oracle* the_oracle() {
  static std::string problem;
  static const auto oracle = [] {
    env::evaluator_options options;
    options.gpu = test::the_gpu();
    options.reference_program = test::program_dir() / "quern-torch";
    options.sandbox_required = false;
    auto opened = env::open_device_oracle(options);
    if (!opened) problem = opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }();
  return test::go_on_with_gpu(oracle != nullptr, problem) ? oracle.get() : nullptr;
}

env::task squares(const std::string& body, const std::string& tolerance) {
  return env::parse_task(
             "quern_task: 1\nname: squares\nlane: cuda\nfamily: test\n"
             "sizes: {n: 4096, m: 4096}\nhidden_sizes: [{n: 3, m: 7}]\ninputs:\n"
             "  - {name: x, dtype: f32, shape: [n, m], dist: [normal, large]}\n"
             "outputs:\n  - {name: y, dtype: f32, shape: [n, m]}\ntolerance: " +
             tolerance +
             "\nbaseline: reference\ncost: {bytes: 8*n*m, flops: n*m}\n"
             "reference: |\n  def forward(x):\n      return " +
             body + "\n")
      .value();
}

std::vector<env::tensor_bytes> three_by_seven(std::vector<float>& values) {
  for (int i = 0; i < 21; ++i)
    values.push_back(0.1F * static_cast<float>(i) - 1);
  env::tensor_bytes bytes(21 * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {bytes};
}

}  // namespace

TEST_CASE("bytes go in, results come out, in the task's type and in f64") {
  auto* oracle = the_oracle();
  if (oracle == nullptr) return;
  const auto what = squares("x * x", "{atol: 0, rtol: 1e-6}");
  const auto at = env::instantiate(what, env::tensors_of(what).hidden_sizes[0]).value();
  std::vector<float> values;
  const auto inputs = three_by_seven(values);
  const auto narrow = oracle->run(what, at, inputs, false);
  REQUIRE_MESSAGE(narrow.has_value(), (narrow ? "" : narrow.error().message));
  const auto wide = oracle->run(what, at, inputs, true);
  REQUIRE_MESSAGE(wide.has_value(), (wide ? "" : wide.error().message));
  REQUIRE((*narrow)[0].size() == 21 * sizeof(float));
  REQUIRE((*wide)[0].size() == 21 * sizeof(double));
  for (std::size_t i = 0; i < values.size(); ++i) {
    float got = 0;
    double got_wide = 0;
    std::memcpy(&got, (*narrow)[0].data() + i * sizeof got, sizeof got);
    std::memcpy(&got_wide, (*wide)[0].data() + i * sizeof got_wide, sizeof got_wide);
    CHECK(got == values[i] * values[i]);
    CHECK(got_wide == static_cast<double>(values[i]) * static_cast<double>(values[i]));
  }
}

TEST_CASE("a case's worst error is found in units of the tolerance") {
  auto* oracle = the_oracle();
  if (oracle == nullptr) return;
  // An f32 result that is a ten-thousandth larger than the f64 one: 1/2 of an rtol of 2e-4.
  const std::string body = "x * x * (1.0 + 1e-4 * float(x.element_size() == 4))";
  const auto what = squares(body, "{atol: 0, rtol: 2e-4}");
  for (const auto& sizes : {env::tensors_of(what).sizes, env::tensors_of(what).hidden_sizes[0]}) {
    const auto at = env::instantiate(what, sizes).value();
    for (const int round : {0, 1}) {
      const auto judged = oracle->judge_case(what, at, round, 5);
      REQUIRE_MESSAGE(judged.has_value(), (judged ? "" : judged.error().message));
      REQUIRE(judged->size() == 1);
      CHECK((*judged)[0].worst_error == doctest::Approx(0.5).epsilon(0.02));
      CHECK((*judged)[0].repeats);
      CHECK((*judged)[0].finite);
    }
  }
  const auto exact = squares("x + 0", "{atol: 0, rtol: 1e-6}");
  const auto small = env::instantiate(exact, env::tensors_of(exact).hidden_sizes[0]).value();
  const auto judged = oracle->judge_case(exact, small, 0, 5);
  REQUIRE(judged.has_value());
  CHECK((*judged)[0].worst_error == 0);
}

TEST_CASE("results that are infinite, or other ones the next time, are told") {
  auto* oracle = the_oracle();
  if (oracle == nullptr) return;
  const auto infinite = squares("x / 0", "{atol: 0, rtol: 1e-6}");
  const auto at = env::instantiate(infinite, env::tensors_of(infinite).hidden_sizes[0]).value();
  const auto judged = oracle->judge_case(infinite, at, 0, 5);
  REQUIRE_MESSAGE(judged.has_value(), (judged ? "" : judged.error().message));
  CHECK_FALSE((*judged)[0].finite);
  CHECK((*judged)[0].worst_error == 0);
  const auto random = squares("x + torch.rand_like(x)", "{atol: 0, rtol: 1e-6}");
  const auto drawn = oracle->judge_case(random, at, 0, 5);
  REQUIRE_MESSAGE(drawn.has_value(), (drawn ? "" : drawn.error().message));
  CHECK_FALSE((*drawn)[0].repeats);
  CHECK((*drawn)[0].worst_error > 1);
}

TEST_CASE("references are timed on the device, and the next one serves after one that failed") {
  auto* oracle = the_oracle();
  if (oracle == nullptr) return;
  const auto what = squares("x * x", "{atol: 0, rtol: 1e-6}");
  const auto at = env::instantiate(what, env::tensors_of(what).sizes).value();
  const auto peak = oracle->peak(at);
  const auto wrong = squares("x[0]", "{atol: 0, rtol: 1e-6}");
  const auto refused = oracle->judge_case(wrong, at, 0, 5);
  REQUIRE_FALSE(refused.has_value());
  CHECK(test::contains(refused.error().message, "shape"));
  const auto ns = oracle->time_baseline(what, at, {});
  REQUIRE_MESSAGE(ns.has_value(), (ns ? "" : ns.error().message));
  // 128 MiB there and back, at no more than a few times the bandwidth that was measured.
  CHECK(static_cast<double>(*ns) > 0.3 * static_cast<double>(env::roofline_floor_ns(at, peak)));
  CHECK(*ns < 10'000'000);
}
