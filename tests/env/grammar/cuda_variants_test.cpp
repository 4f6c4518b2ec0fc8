// CUDA kernels as texts: each has a launch plan, passes the screen, is addressed and short.
#include <map>
#include <set>

#include "env/grammar/completion_text.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/grammar/variants.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/lanes/cuda/grammar/cuda_grammar.hpp"
#include "env/lanes/cuda/grammar/cuda_writer.hpp"
#include "env/lanes/cuda/launch/launch_plan.hpp"
#include "env/lanes/cuda/screen/cuda_screen.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

env::composition drawn(std::uint64_t seed, std::uint64_t index) {
  return env::draw_composition(seed, index, env::cuda_grammar()->limits());
}

/// Why a text has no plan for the timed size and a hidden one; empty: it has.
std::string no_plan(const env::task& of, const std::string& source) {
  const auto plan = env::parse_launch_plan(source, env::signature_of(of));
  if (!plan) return env::to_string(plan.error());
  for (const auto& sizes : {env::tensors_of(of).sizes, env::tensors_of(of).hidden_sizes[0],
                            env::tensors_of(of).hidden_sizes[1]}) {
    const auto bytes = plan->workspace(sizes);
    if (!bytes) return bytes.error().message;
    const auto steps = plan->steps(env::call_of(env::instantiate(of, sizes).value(), *bytes));
    if (!steps) return steps.error().message;
  }
  return {};
}

}  // namespace

TEST_CASE("cuda: the steps are a function, the style is around it") {
  env::cuda_style style;
  style.share = env::cuda_share::warp;
  CHECK(env::render_cuda_kernel(
            env::parse_composition("times_row | relu | row_mean | tanh").value(), style) ==
        "constexpr int B = 256;\n"
        "__device__ float f(float h, float w) {\n"
        "  h = h * w;\n"
        "  h = h > 0 ? h : 0;\n"
        "  return h;\n"
        "}\n"
        "__device__ float g(float h) {\n"
        "  h = tanhf(h);\n"
        "  return h;\n"
        "}\n"
        "__device__ float total(float s) {\n"
        "  for (int k = 16; k > 0; k /= 2)\n"
        "    s += __shfl_xor_sync(~0u, s, k);\n"
        "  return s;\n"
        "}\n"
        "__global__ void rows(const float* x, const float* w, float* y, int n, int m) {\n"
        "  int i = (blockIdx.x * B + threadIdx.x) / 32;\n"
        "  int l = threadIdx.x % 32;\n"
        "  if (i >= n) return;\n"
        "  float s = 0;\n"
        "  for (int j = l; j < m; j += 32) {\n"
        "    float h = f(x[i * m + j], w[j]);\n"
        "    s += h;\n"
        "  }\n"
        "  s = total(s) / m;\n"
        "  if (l == 0) y[i] = g(s);\n"
        "}\n"
        "extern \"C\" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t m, "
        "void* workspace, cudaStream_t stream) {\n"
        "  rows<<<(n * 32 + B - 1) / B, B, 0, stream>>>(x, w, y, n, m);\n"
        "}\n");
}

TEST_CASE("cuda: every variant has a launch plan and passes the screen; texts differ") {
  int texts = 0;
  std::set<std::string> styles;
  for (std::uint64_t k = 0; k < 60; ++k) {
    const env::composition what = drawn(51, k);
    env::task_options options;
    options.lane = &env::cuda_lane;
    const env::task of = env::make_task(what, options).value();
    CHECK(env::tensors_of(of).sizes[0] * env::tensors_of(of).sizes[1] >= 1 << 19);
    CHECK(env::tensors_of(of).sizes[0] * env::tensors_of(of).sizes[1] <= 1 << 24);
    CHECK(no_plan(of, env::tensors_of(of).plain) == "");
    const env::composition_probe probe(what);
    const env::variant_supply supply(probe, *env::cuda_grammar());
    std::set<std::string> right;
    for (const auto& variant : supply.correct()) {
      CHECK(right.insert(variant.source).second);
      styles.insert(variant.style);
      if (const auto why = no_plan(of, variant.source); !why.empty())
        FAIL(why << "\n" << variant.source);
      if (const auto finding = env::screen_cuda(variant.source, {false, true}))
        FAIL(finding->text << "\n" << variant.source);
      ++texts;
    }
    CHECK(right.size() >= 20);
    for (std::uint64_t d = 0; d < 30; ++d) {
      const auto wrong = supply.draw(1, d, 1.0);
      CHECK(right.contains(wrong.source) == wrong.intended_correct);
      if (const auto why = no_plan(of, wrong.source); !why.empty())
        FAIL(why << "\n" << wrong.source);
      CHECK_FALSE(env::screen_cuda(wrong.source, {false, true}));
    }
  }
  MESSAGE(texts << " texts in " << styles.size() << " styles");
  CHECK(texts > 3000);
  CHECK(styles.size() > 150);
}

TEST_CASE("cuda: a variant depends on its address alone, and every mistake occurs") {
  std::map<env::kernel_error, int> errors;
  for (const std::string_view text :
       {"times_row | silu | rms | relu", "scale 0.5 | square | softmax", "relu | running_sum"}) {
    const env::composition_probe probe(env::parse_composition(text).value());
    REQUIRE(probe.objection().empty());
    const env::variant_supply supply(probe, *env::cuda_grammar());
    const env::variant_supply again(probe, *env::cuda_grammar());
    for (std::uint64_t k = 0; k < 400; ++k) {
      const auto variant = supply.draw(4, 399 - k, 0.5);
      CHECK(variant.source == again.draw(4, 399 - k, 0.5).source);
      ++errors[variant.error];
    }
  }
  CHECK(errors.size() == 10);
  CHECK(errors[env::kernel_error::none] > 500);
  CHECK(errors[env::kernel_error::none] < 750);
}

TEST_CASE("cuda: generated tasks name their lane, their baseline is a plan of plain kernels") {
  env::task_options options;
  options.lane = &env::cuda_lane;
  const auto made =
      env::make_task(env::parse_composition("times_row | silu | rms").value(), options).value();
  CHECK(made.lane == &env::cuda_lane);
  CHECK(env::validate(made));
  CHECK(env::tensors_of(made).plain.find("__global__ void f_map0") != std::string::npos);
  CHECK(env::tensors_of(made).plain.find("__global__ void f_map1") != std::string::npos);
  CHECK(env::tensors_of(made).plain.find("__global__ void rows") != std::string::npos);
  options.plain_us = 1000;
  const auto larger =
      env::make_task(env::parse_composition("times_row | silu | rms").value(), options).value();
  CHECK(env::tensors_of(larger).sizes[0] > env::tensors_of(made).sizes[0]);
}
