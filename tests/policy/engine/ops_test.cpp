// Host kernels against their ATen compositions, in float32 and float64, at sizes that do and do not
// fill vectors.
#include "policy/engine/ops.hpp"

#include <cmath>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "support/test.hpp"

using namespace quern::policy;

namespace {

const at::Tensor absent;

at::Tensor normal(at::IntArrayRef shape, at::ScalarType type, std::uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed),
                   at::TensorOptions().dtype(at::kDouble))
      .to(type);
}

/// Largest difference, relative to the larger of 1 and the values themselves.
double difference(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kDouble)
      .sub(b.to(at::kDouble))
      .abs()
      .div(b.to(at::kDouble).abs().clamp_min(1))
      .max()
      .item<double>();
}

double tolerance(at::ScalarType type) {
  return type == at::kDouble ? 1e-12 : 5e-6;
}

/// Runs f(outputs) twice, through the host kernels and through ATen, from equal outputs, and
/// compares.
template <class F>
void compare(at::ScalarType type, const std::vector<at::Tensor>& outputs, F&& f) {
  std::vector<at::Tensor> host, generic;
  for (const at::Tensor& t : outputs) {
    host.push_back(t.clone());
    generic.push_back(t.clone());
  }
  f(host, true);
  f(generic, false);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(host[i], generic[i]) < tolerance(type));
    CHECK(difference(host[i], outputs[i]) > tolerance(type));  // something was written
  }
}

const std::vector<at::ScalarType> types{at::kFloat, at::kDouble};

}  // namespace

TEST_CASE("norms") {
  for (at::ScalarType type : types)
    for (std::int64_t width : {1, 7, 32, 75}) {
      CAPTURE(width);
      const at::Tensor x = normal({5, width}, type, 1), w = normal({width}, type, 2),
                       dy = normal({5, width}, type, 3);
      compare(type, {at::zeros_like(x), at::zeros({5}, x.options())}, [&](auto& o, bool host) {
        host ? ops::rms_norm(x, w, 1e-6, o[0], o[1])
             : ops::generic::rms_norm(x, w, 1e-6, o[0], o[1]);
      });
      at::Tensor y = at::zeros_like(x), rstd = at::zeros({5}, x.options());
      ops::rms_norm(x, w, 1e-6, y, rstd);
      if (width == 1) continue;  // of one value the norm is its sign: no gradient by x
      compare(type, {normal({5, width}, type, 4), normal({width}, type, 5)},
              [&](auto& o, bool host) {
                host ? ops::rms_norm_backward(dy, x, w, rstd, o[0], o[1])
                     : ops::generic::rms_norm_backward(dy, x, w, rstd, o[0], o[1]);
              });
    }
}

TEST_CASE("heads: norm, rotation, layout, and back") {
  for (at::ScalarType type : types)
    for (const kernels::head_shape shape : {kernels::head_shape{2, 3, 8}, {1, 1, 6}, {3, 2, 32}})
      for (const bool norms : {false, true}) {
        const auto [kv, group, dim] = shape;
        const std::int64_t rows = 4, heads = kv * group;
        ops::head_arguments how;
        how.shape = shape;
        how.eps = 1e-6;
        if (norms) {
          how.q_norm = normal({dim}, type, 1);
          how.k_norm = normal({dim}, type, 2);
        }
        const at::Tensor angle = normal({9, dim / 2}, type, 3);
        how.cos = angle.cos();
        how.sin = angle.sin();
        how.positions = at::tensor(std::vector<std::int64_t>{3, 8, 0, 3}, at::kLong);
        const at::Tensor qkv = normal({rows, (heads + 2 * kv) * dim}, type, 4);
        const at::TensorOptions like = qkv.options();
        at::Tensor rstd = at::zeros({rows, heads + kv}, like);
        compare(type,
                {at::zeros({kv, rows, group, dim}, like), at::zeros({kv, rows, dim}, like),
                 at::zeros({kv, rows, dim}, like)},
                [&](auto& o, bool host) {
                  host ? ops::split_heads(how, qkv, o[0], o[1], o[2], rstd)
                       : ops::generic::split_heads(how, qkv, o[0], o[1], o[2], rstd);
                });
        const at::Tensor dq = normal({kv, rows, group, dim}, type, 5),
                         dk = normal({kv, rows, dim}, type, 6),
                         dv = normal({kv, rows, dim}, type, 7);
        std::vector<at::Tensor> outputs;
        for (std::int64_t part = 0; part < (norms ? 3 : 1); ++part)
          outputs.push_back(part == 0 ? at::zeros_like(qkv)
                                      : normal({dim}, type, 7 + static_cast<std::uint64_t>(part)));
        compare(type, outputs, [&](auto& o, bool host) {
          at::Tensor none1, none2;
          at::Tensor& dqn = norms ? o.at(1) : none1;
          at::Tensor& dkn = norms ? o.at(2) : none2;
          host ? ops::split_heads_backward(how, dq, dk, dv, qkv, rstd, o[0], dqn, dkn)
               : ops::generic::split_heads_backward(how, dq, dk, dv, qkv, rstd, o[0], dqn, dkn);
        });
      }
}

TEST_CASE("swiglu and back") {
  for (at::ScalarType type : types)
    for (std::int64_t width : {1, 11, 64}) {
      const at::Tensor x = normal({3, 2 * width}, type, 1).mul_(4), d = normal({3, width}, type, 2);
      compare(type, {at::zeros_like(d)}, [&](auto& o, bool host) {
        host ? ops::swiglu(x, o[0]) : ops::generic::swiglu(x, o[0]);
      });
      compare(type, {at::zeros_like(x)}, [&](auto& o, bool host) {
        host ? ops::swiglu_backward(d, x, o[0]) : ops::generic::swiglu_backward(d, x, o[0]);
      });
    }
}

TEST_CASE("softmax of a causal tile and back") {
  for (at::ScalarType type : types)
    for (std::int64_t columns : {6, 37, 80}) {
      ops::tile_mask mask;
      mask.group = 3;
      mask.first = columns - 3;
      mask.scale = 0.37;
      const at::Tensor scores = normal({10, columns}, type, 1).mul_(20);
      at::Tensor lse = at::zeros({10}, scores.options());
      compare(type, {scores, at::zeros({10}, scores.options())}, [&](auto& o, bool host) {
        host ? ops::softmax_tile(o[0], mask, o[1]) : ops::generic::softmax_tile(o[0], mask, o[1]);
        lse = o[1];
      });
      const at::Tensor delta = normal({10}, type, 3);
      compare(type, {scores, normal({10, columns}, type, 2)}, [&](auto& o, bool host) {
        host ? ops::softmax_tile_backward(o[0], o[1], mask, lse, delta)
             : ops::generic::softmax_tile_backward(o[0], o[1], mask, lse, delta);
      });
    }
}

TEST_CASE("rows of logits and back, with padded vocabulary and temperature") {
  for (at::ScalarType type : types)
    for (std::int64_t valid : {29, 40}) {
      const at::Tensor z = normal({4, 40}, type, 1).mul_(15);
      const at::Tensor target = at::tensor(std::vector<std::int64_t>{0, 7, 28, 5}, at::kLong);
      const at::Tensor scale =
                           at::tensor(std::vector<double>{1, 0.5, 2, 1.25}, at::kDouble).to(type),
                       g = normal({4}, type, 2);
      at::Tensor lse;
      const at::Tensor zeros = at::zeros({4}, z.options());
      compare(type, {zeros, zeros, zeros}, [&](auto& o, bool host) {
        host ? ops::log_softmax_rows(z, target, scale, valid, o[0], o[1], o[2])
             : ops::generic::log_softmax_rows(z, target, scale, valid, o[0], o[1], o[2]);
        lse = o[2];
      });
      compare(type, {z}, [&](auto& o, bool host) {
        host ? ops::log_softmax_gradient(o[0], target, scale, lse, g, valid, o[0])
             : ops::generic::log_softmax_gradient(o[0], target, scale, lse, g, valid, o[0]);
        CHECK(o[0].narrow(1, valid, 40 - valid).abs().sum().template item<double>() == 0);
      });
    }
}

TEST_CASE("a gradient of logits in bfloat16 is the one in float32, rounded") {
  for (const auto gradient : {&ops::log_softmax_gradient, &ops::generic::log_softmax_gradient}) {
    const at::Tensor z = normal({3, 41}, at::kFloat, 1).mul_(5),
                     factor = normal({3}, at::kFloat, 2);
    const at::Tensor target = at::tensor(std::vector<std::int64_t>{0, 7, 28}, at::kLong),
                     scale = at::tensor(std::vector<float>{1, 0.5, 2});
    at::Tensor log_prob = at::zeros({3}), entropy = at::zeros({3}), lse = at::zeros({3});
    ops::log_softmax_rows(z, target, scale, 37, log_prob, entropy, lse);
    at::Tensor wide = z.clone(), lost = z.clone(), narrow = at::ones({3, 41}, at::kBFloat16);
    gradient(wide, target, scale, lse, factor, 37, wide);
    gradient(lost, target, scale, lse, factor, 37, narrow);
    CHECK(narrow.equal(wide.to(at::kBFloat16)));
    CHECK(wide.abs().max().item<double>() > 0.1);
  }
}

TEST_CASE("gradients in bfloat16 on the host are the compositions in float64 but for rounding") {
  const auto rounded = [](at::IntArrayRef shape, std::uint64_t seed) {
    return normal(shape, at::kBFloat16, seed);
  };
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  for (std::int64_t width : {7, 21, 64}) {
    CAPTURE(width);
    const at::Tensor d_act = rounded({3, width}, 1), gate_up = rounded({3, 2 * width}, 2);
    at::Tensor d_gate_up = at::zeros_like(gate_up), exact = wide(gate_up);
    ops::swiglu_backward(d_act, gate_up, d_gate_up);
    ops::generic::swiglu_backward(wide(d_act), wide(gate_up), exact);
    CHECK(difference(d_gate_up, exact) < 1e-2);

    const at::Tensor x = rounded({3, width}, 3), w = rounded({width}, 4);
    at::Tensor rstd = at::ones({3}), dx = rounded({3, width}, 5), dw = at::zeros({width});
    at::Tensor exact_dx = wide(dx), exact_dw = wide(dw);
    ops::rms_norm_backward(d_act, x, w, rstd, dx, dw);
    ops::generic::rms_norm_backward(wide(d_act), wide(x), wide(w), wide(rstd), exact_dx, exact_dw);
    CHECK(difference(dx, exact_dx) < 1e-2);
    CHECK(difference(dw, exact_dw) < 1e-5);
    CHECK(dw.abs().max().item<double>() > 0.1);
  }
}

TEST_CASE("attention over the cache") {
  for (at::ScalarType type : types)
    for (const kernels::head_shape shape :
         {kernels::head_shape{2, 3, 32}, {1, 5, 6}, {3, 1, 64}, {2, 2, 40}}) {
      const auto [kv, group, dim] = shape;
      const std::int64_t rows = 5, capacity = 48;
      const at::Tensor q = normal({kv, rows, group, dim}, type, 1),
                       k = normal({kv, rows, dim}, type, 2), v = normal({kv, rows, dim}, type, 3);
      // Rows 0 and 1 are neighbours of one slot; lengths below, at and above a block of keys; rows
      // 3 and 4 read their first blocks in other slots.
      const auto integers = [](std::vector<std::int64_t> x) { return at::tensor(x, at::kLong); };
      const ops::cache_rows where{integers({1, 1, 0, 2, 3}), integers({14, 15, 0, 16, 47}),
                                  integers({0, 0, 0, 1, 2}), integers({0, 0, 0, 16, 32})};
      compare(type,
              {normal({4, kv, capacity / 16, dim, 16}, type, 4),
               normal({4, kv, capacity, dim}, type, 5),
               at::zeros({rows, kv * group * dim}, q.options())},
              [&](auto& o, bool host) {
                ops::layer_cache cache{
                    o[0], o[1], at::zeros({4 * (capacity + kernels::key_block)}, q.options())};
                host ? ops::cached_attention(shape, q, k, v, where, cache, o[2])
                     : ops::generic::cached_attention(shape, q, k, v, where, cache, o[2]);
              });
    }
}

TEST_CASE("exponentials stay finite at the ends") {
  ops::tile_mask mask;
  mask.first = 8;
  at::Tensor s =
      at::tensor(std::vector<float>{-1e30F, 0, 1e4F, 1e4F, -200, 80, 9999, -1e4F}).view({1, 8});
  at::Tensor lse = at::zeros({1});
  ops::softmax_tile(s, mask, lse);
  const float* p = s.const_data_ptr<float>();
  CHECK(p[0] == 0);
  CHECK(p[2] == p[3]);
  CHECK(std::abs(p[2] + p[3] + p[6] - 1) < 1e-6);
  CHECK(std::isfinite(lse.item<float>()));
}
