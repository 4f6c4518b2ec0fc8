// Attention in bfloat16 on a GPU, by the fused operator, against float64 on the CPU: heads of both
// sizes that models have, prompts that several segments share, segments of one row.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>

#include "policy/engine/attention.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/flash_attention.hpp"
#include "policy/engine/gpu_device.hpp"
#include "policy/engine/products.hpp"
#include "policy/engine/small_models.hpp"

using namespace quern;
using namespace quern::policy;

namespace {

/// Results and gradients, in float64 on the CPU.
struct attended {
  at::Tensor out, dq, dk, dv;
};

attended attend_on(const kernels::head_shape& shape, const std::vector<segment>& segments,
                   at::ScalarType type, at::Device device) {
  const auto [kv_heads, group, dim] = shape;
  const std::int64_t n = segments.back().end;
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(n), 0);
  const packed_rows rows =
      make_rows(test::small_config(architecture::qwen2), zeros, zeros, segments, device).value();
  const auto numbers = [&](const std::vector<std::int64_t>& size, std::uint64_t seed) {
    return at::randn(size, at::detail::createCPUGenerator(seed),
                     at::TensorOptions().dtype(at::kFloat))
        .to(at::kBFloat16)
        .to(device, type);
  };
  const at::Tensor q = numbers({kv_heads, n, group, dim}, 1), k = numbers({kv_heads, n, dim}, 2),
                   v = numbers({kv_heads, n, dim}, 3),
                   d_out = numbers({n, kv_heads * group * dim}, 4);
  at::Tensor out = at::empty_like(d_out), lse = at::empty({kv_heads, n, group}, wide_options(q)),
             dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  const bool fused = flash_fits(q), wanted = device.is_cuda();
  CHECK(fused == wanted);
  attention_scratch scratch;
  attend(shape, rows, q, k, v, out, lse, scratch);
  attend_backward(shape, rows, q, k, v, out, lse, d_out, dq, dk, dv, scratch);
  const auto exact = [](const at::Tensor& x) { return x.to(at::kCPU, at::kDouble); };
  return {exact(out), exact(dq), exact(dk), exact(dv)};
}

/// As a part of the exact values, or of what single values of inputs are where these are near 0: a
/// row that sees one key has no gradient by its query.
double off_by(const at::Tensor& a, const at::Tensor& exact) {
  const double size =
      std::max(exact.norm().item<double>(), 0.1 * std::sqrt(static_cast<double>(exact.numel())));
  const double error = a.sub(exact).norm().item<double>() / size;
  return std::isfinite(error) ? error : 1e30;
}

struct rows_case {
  const char* what;
  std::vector<segment> segments, other;  ///< the second: what must not come out the same
};

const std::vector<rows_case> rows_cases{
    {"a prompt of 150 rows, own parts of 1, 130 and 300",
     {{0, 150, 0, 0}, {150, 151, 0, 150}, {151, 281, 0, 150}, {281, 581, 0, 150}},
     {{0, 150, 0, 0}, {150, 151, 30, 150}, {151, 281, 30, 150}, {281, 581, 30, 150}}},
    {"a prompt of 150 rows, every own part 1 row",
     {{0, 150, 0, 0}, {150, 151, 0, 150}, {151, 152, 0, 150}, {152, 153, 0, 150}},
     {{0, 75, 0, 0},
      {75, 150, 0, 0},
      {150, 151, 75, 150},
      {151, 152, 75, 150},
      {152, 153, 75, 150}}},
    {"two prompts, one of 1 row, and a segment alone",
     {{0, 1, 0, 0}, {1, 2, 0, 1}, {2, 152, 0, 0}, {152, 200, 2, 152}, {200, 333, 0, 0}},
     {{0, 1, 0, 0}, {1, 2, 0, 1}, {2, 152, 0, 0}, {152, 200, 0, 0}, {200, 333, 0, 0}}},
    {"no prompt is shared", {{0, 130, 0, 0}, {130, 430, 0, 0}}, {{0, 129, 0, 0}, {129, 430, 0, 0}}},
    {"every segment 1 row",
     {{0, 1, 0, 0}, {1, 2, 0, 0}, {2, 3, 0, 0}},
     {{0, 2, 0, 0}, {2, 3, 0, 0}}},
};

}  // namespace

TEST_CASE("fused attention in bfloat16 is that of float64 but for rounding, forward and backward") {
  if (!test::go_on_with_cuda()) return;
  constexpr double rounding = 0.015;
  for (const kernels::head_shape shape :
       {kernels::head_shape{2, 6, 64}, {2, 6, 128}, {2, 7, 64}, {3, 1, 128}})
    for (const rows_case& rows : rows_cases) {
      const attended exact = attend_on(shape, rows.segments, at::kDouble, at::kCPU),
                     fused = attend_on(shape, rows.segments, at::kBFloat16, test::cuda_device()),
                     other = attend_on(shape, rows.other, at::kDouble, at::kCPU);
      const double out = off_by(fused.out, exact.out), dq = off_by(fused.dq, exact.dq),
                   dk = off_by(fused.dk, exact.dk), dv = off_by(fused.dv, exact.dv),
                   control = off_by(other.out, exact.out);
      std::printf(
          "attention, %d x %d heads of %d, %s: off by %.1e, dq %.1e, dk %.1e, dv %.1e "
          "(control %.1e)\n",
          static_cast<int>(shape.kv_heads), static_cast<int>(shape.group),
          static_cast<int>(shape.dim), rows.what, out, dq, dk, dv, control);
      CHECK(out < rounding);
      CHECK(dq < rounding);
      CHECK(dk < rounding);
      CHECK(dv < rounding);
      CHECK(control > 2 * rounding);
    }
}
