// Forward and backward of the decoder over packed rows.
#include "policy/engine/model.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>

#include "policy/engine/attention.hpp"
#include "policy/engine/ops.hpp"
#include "policy/engine/products.hpp"

namespace quern::policy {
namespace {

std::vector<double> inverse_frequencies(const model_config& config) {
  const std::int64_t half = config.head_dim / 2;
  std::vector<double> result(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    double f = std::pow(config.rope_theta,
                        -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim));
    if (config.rope_scaling) {
      const llama3_rope& r = *config.rope_scaling;
      const double wavelength = 2 * std::numbers::pi / f,
                   length = static_cast<double>(r.original_max_positions);
      if (wavelength > length / r.low_freq_factor) {
        f /= r.factor;
      } else if (wavelength >= length / r.high_freq_factor) {
        const double s =
            (length / wavelength - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
        f = (1 - s) * f / r.factor + s * f;
      }
    }
    result[static_cast<std::size_t>(i)] = f;
  }
  return result;
}

}  // namespace

rope_table rope_table::make(const model_config& config, std::int64_t positions, at::ScalarType type,
                            at::Device device) {
  const std::int64_t half = config.head_dim / 2;
  const at::Tensor cos = at::empty({positions, half}, at::kDouble),
                   sin = at::empty({positions, half}, at::kDouble);
  const std::vector<double> frequency = inverse_frequencies(config);
  double* c = cos.mutable_data_ptr<double>();
  double* s = sin.mutable_data_ptr<double>();
  for (std::int64_t p = 0; p < positions; ++p)
    for (double f : frequency) {
      *c++ = std::cos(static_cast<double>(p) * f);
      *s++ = std::sin(static_cast<double>(p) * f);
    }
  return {cos.to(device, type), sin.to(device, type)};
}

struct decoder::state {
  /// Flat buffers of one block; views of the rows in use are taken at each pass.
  struct block_buffers {
    at::Tensor input, norm1, rstd1, qkv, q, k, v, head_rstd, lse, attention, middle, norm2, rstd2,
        gate_up, act;
  };

  /// The same, viewed for the rows of this pass.
  struct block_rows : block_buffers {};

  model_config config;
  kernels::head_shape shape;
  rope_table rope;
  std::vector<block_buffers>
      blocks;           ///< one per layer where activations are kept, else only the first is used
  block_buffers again;  ///< what is computed again: the same memory for all layers
  recompute_mode recompute = recompute_mode::none;
  attention_scratch scratch;
  at::Tensor last, last_rstd, result, d_rows, d_wide, d_act, d_norm, dq, dk, dv;

  ops::head_arguments heads(const block_weights& w, const packed_rows& rows) const {
    return {shape, w.q_norm, w.k_norm, config.rms_norm_eps, rope.cos, rope.sin, rows.positions};
  }
  block_rows view(block_buffers& b, std::int64_t rows, const at::Tensor& like);
  void attention_half(const block_weights& w, const packed_rows& rows, block_rows& a);
  void mlp_half(const block_weights& w, block_rows& a);
  void block_forward(const block_weights& w, const packed_rows& rows, block_rows& a,
                     at::Tensor& output);
  void block_backward(const block_weights& w, const packed_rows& rows, block_rows& a,
                      at::Tensor& dx, block_weights& g);
};

decoder::state::block_rows decoder::state::view(block_buffers& b, std::int64_t rows,
                                                const at::Tensor& like) {
  const std::int64_t d = config.hidden_size, q = config.q_size(), kv = config.kv_size(),
                     i = config.intermediate_size;
  const auto [kv_heads, group, dim] = shape;
  const at::TensorOptions statistic = wide_options(like);
  block_buffers& first = recompute == recompute_mode::full ? again : b;
  block_buffers& second = recompute == recompute_mode::none ? b : again;
  block_rows a;
  a.input = take(b.input, {rows, d}, like);
  a.norm1 = take(first.norm1, {rows, d}, like);
  a.rstd1 = take(first.rstd1, {rows}, statistic);
  a.qkv = take(first.qkv, {rows, q + 2 * kv}, like);
  a.q = take(first.q, {kv_heads, rows, group, dim}, like);
  a.k = take(first.k, {kv_heads, rows, dim}, like);
  a.v = take(first.v, {kv_heads, rows, dim}, like);
  if (config.qk_norm())
    a.head_rstd = take(first.head_rstd, {rows, (group + 1) * kv_heads}, statistic);
  a.lse = take(first.lse, {kv_heads, rows, group}, statistic);
  a.attention = take(first.attention, {rows, q}, like);
  a.middle = take(first.middle, {rows, d}, like);
  a.norm2 = take(second.norm2, {rows, d}, like);
  a.rstd2 = take(second.rstd2, {rows}, statistic);
  a.gate_up = take(second.gate_up, {rows, 2 * i}, like);
  a.act = take(second.act, {rows, i}, like);
  return a;
}

void decoder::state::attention_half(const block_weights& w, const packed_rows& rows,
                                    block_rows& a) {
  ops::rms_norm(a.input, w.attention_norm, config.rms_norm_eps, a.norm1, a.rstd1);
  if (w.qkv_bias.defined())
    at::addmm_out(a.qkv, w.qkv_bias, a.norm1, w.qkv.t());
  else
    at::mm_out(a.qkv, a.norm1, w.qkv.t());
  ops::split_heads(heads(w, rows), a.qkv, a.q, a.k, a.v, a.head_rstd);
  attend(shape, rows, a.q, a.k, a.v, a.attention, a.lse, scratch);
  add_projection(a.middle, a.input, a.attention, w.out);
}

void decoder::state::mlp_half(const block_weights& w, block_rows& a) {
  ops::rms_norm(a.middle, w.mlp_norm, config.rms_norm_eps, a.norm2, a.rstd2);
  at::mm_out(a.gate_up, a.norm2, w.gate_up.t());
  ops::swiglu(a.gate_up, a.act);
}

void decoder::state::block_forward(const block_weights& w, const packed_rows& rows, block_rows& a,
                                   at::Tensor& output) {
  attention_half(w, rows, a);
  mlp_half(w, a);
  add_projection(output, a.middle, a.act, w.down);
}

void decoder::state::block_backward(const block_weights& w, const packed_rows& rows, block_rows& a,
                                    at::Tensor& dx, block_weights& g) {
  at::Tensor d_down = take(d_act, a.act.sizes(), dx), d_normed = take(d_norm, dx.sizes(), dx);
  at::Tensor wide = take(d_wide, a.gate_up.sizes(), dx);
  at::mm_out(d_down, dx, w.down);
  add_product(g.down, dx.t(), a.act);
  ops::swiglu_backward(d_down, a.gate_up, wide);
  add_product(g.gate_up, wide.t(), a.norm2);
  at::mm_out(d_normed, wide, w.gate_up);
  ops::rms_norm_backward(d_normed, a.middle, w.mlp_norm, a.rstd2, dx, g.mlp_norm);

  at::Tensor d_attention = take(d_act, a.attention.sizes(), dx);
  at::mm_out(d_attention, dx, w.out);
  add_product(g.out, dx.t(), a.attention);
  at::Tensor d_q = take(dq, a.q.sizes(), dx), d_k = take(dk, a.k.sizes(), dx),
             d_v = take(dv, a.v.sizes(), dx);
  attend_backward(shape, rows, a.q, a.k, a.v, a.attention, a.lse, d_attention, d_q, d_k, d_v,
                  scratch);
  at::Tensor d_qkv = take(d_wide, a.qkv.sizes(), dx);
  ops::split_heads_backward(heads(w, rows), d_q, d_k, d_v, a.qkv, a.head_rstd, d_qkv, g.q_norm,
                            g.k_norm);
  add_product(g.qkv, d_qkv.t(), a.norm1);
  if (w.qkv_bias.defined())
    g.qkv_bias.add_(at::sum(d_qkv, at::IntArrayRef{0}, false, g.qkv_bias.scalar_type()));
  at::mm_out(d_normed, d_qkv, w.qkv);
  ops::rms_norm_backward(d_normed, a.input, w.attention_norm, a.rstd1, dx, g.attention_norm);
}

base::expected<decoder> decoder::make(const parameter_arena& arena, const parallel_context& context,
                                      recompute_mode recompute) {
  QUERN_CHECK(check(context));
  auto s = std::make_unique<state>();
  s->config = arena.config;
  s->recompute = recompute;
  s->shape = {arena.config.kv_heads, arena.config.heads / arena.config.kv_heads,
              arena.config.head_dim};
  s->rope = rope_table::make(arena.config, arena.config.max_positions,
                             wide_type(arena.flat.scalar_type()), arena.flat.device());
  s->blocks.resize(static_cast<std::size_t>(arena.config.layers));
  return decoder(std::move(s));
}

at::Tensor decoder::forward(const model_weights& weights, const packed_rows& rows, bool keep,
                            const parallel_context& context) {
  static_cast<void>(context);  // of sizes one: checked where the decoder was made
  state& s = *state_;
  const at::Tensor& like = weights.embedding;
  const std::int64_t n = rows.rows(), d = s.config.hidden_size;
  const std::size_t layers = s.blocks.size();
  state::block_rows here = s.view(s.blocks[0], n, like);
  at::index_select_out(here.input, weights.embedding, 0, rows.tokens);
  at::Tensor last = take(s.last, {n, d}, like);
  for (std::size_t i = 0; i < layers; ++i) {
    if (keep && i + 1 < layers) {
      state::block_rows next = s.view(s.blocks[i + 1], n, like);
      s.block_forward(weights.blocks[i], rows, here, next.input);
      here = std::move(next);
    } else {
      s.block_forward(weights.blocks[i], rows, here, last);
      if (i + 1 < layers) std::swap(here.input, last);
    }
  }
  at::Tensor rstd = take(s.last_rstd, {n}, wide_options(like)),
             result = take(s.result, {n, d}, like);
  ops::rms_norm(last, weights.final_norm, s.config.rms_norm_eps, result, rstd);
  return result;
}

void decoder::backward(const model_weights& weights, const packed_rows& rows,
                       const at::Tensor& d_hidden, model_weights& gradients,
                       const bucket_done& done, const parallel_context& context) {
  static_cast<void>(context);
  state& s = *state_;
  const std::int64_t n = rows.rows(), d = s.config.hidden_size;
  const at::Tensor last = take(s.last, {n, d}, d_hidden),
                   rstd = take(s.last_rstd, {n}, wide_options(d_hidden));
  at::Tensor dx = take(s.d_rows, {n, d}, d_hidden).zero_();
  ops::rms_norm_backward(d_hidden, last, weights.final_norm, rstd, dx, gradients.final_norm);
  if (done) done(s.blocks.size() + 1);
  for (std::size_t i = s.blocks.size(); i-- > 0;) {
    state::block_rows a = s.view(s.blocks[i], n, d_hidden);
    if (s.recompute == recompute_mode::full) s.attention_half(weights.blocks[i], rows, a);
    if (s.recompute != recompute_mode::none) s.mlp_half(weights.blocks[i], a);
    s.block_backward(weights.blocks[i], rows, a, dx, gradients.blocks[i]);
    if (done) done(i + 1);
  }
  gradients.embedding.index_add_(0, rows.tokens, dx.to(gradients.embedding.scalar_type()));
  if (done) done(0);
}

decoder::decoder(std::unique_ptr<state> parts) : state_(std::move(parts)) {}
decoder::decoder(decoder&&) noexcept = default;
decoder& decoder::operator=(decoder&&) noexcept = default;
decoder::~decoder() = default;
const model_config& decoder::config() const {
  return state_->config;
}

std::size_t decoder::activation_bytes() const {
  const state& s = *state_;
  std::size_t total = 0;
  const auto add = [&](std::initializer_list<at::Tensor> buffers) {
    for (const at::Tensor& one : buffers)
      if (one.defined()) total += one.nbytes();
  };
  const auto add_block = [&](const state::block_buffers& b) {
    add({b.input, b.norm1, b.rstd1, b.qkv, b.q, b.k, b.v, b.head_rstd, b.lse, b.attention, b.middle,
         b.norm2, b.rstd2, b.gate_up, b.act});
  };
  for (const state::block_buffers& b : s.blocks)
    add_block(b);
  add_block(s.again);
  add({s.last, s.last_rstd, s.result, s.d_rows, s.d_wide, s.d_act, s.d_norm, s.dq, s.dk, s.dv});
  return total;
}

}  // namespace quern::policy
