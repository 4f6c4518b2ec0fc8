// One pass of the decoder over rows with a KV cache.
#include "policy/engine/cached.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "policy/engine/model.hpp"
#include "policy/engine/ops.hpp"

namespace quern::policy {

static_assert(cache_block == kernels::key_block);

struct cached_decoder::state {
  model_config config;
  kernels::head_shape shape;
  rope_table rope;
  std::int64_t rows = 0, slots = 0, capacity = 0;
  std::vector<ops::layer_cache> layers;  ///< the last slot takes what padding rows write
  at::Tensor tokens, positions;
  ops::cache_rows where;
  at::Tensor hidden, normed, qkv, q, k, v, attention, middle, gate_up, act, logits;
};

base::expected<cached_decoder> cached_decoder::make(const parameter_arena& arena, std::int64_t rows,
                                                    std::int64_t slots, std::int64_t capacity,
                                                    const parallel_context& context) {
  QUERN_CHECK(check(context));
  const model_config& c = arena.config;
  if (rows < 1 || slots < 1 || capacity < 1 || capacity > c.max_positions)
    return base::fail(
        base::errc::invalid_argument,
        "a cache of {} rows, {} slots and {} positions: all at least 1, positions at most {}", rows,
        slots, capacity, c.max_positions);
  auto s = std::make_unique<state>();
  s->config = c;
  s->shape = {c.kv_heads, c.heads / c.kv_heads, c.head_dim};
  s->rows = rows;
  s->slots = slots;
  s->capacity = (capacity + cache_block - 1) / cache_block * cache_block;
  const auto [kv_heads, group, dim] = s->shape;
  try {
    const at::TensorOptions like = arena.flat.options(), integers = like.dtype(at::kLong);
    s->rope = rope_table::make(c, capacity, arena.flat.scalar_type(), arena.flat.device());
    const at::Tensor scratch = at::empty({4 * (s->capacity + cache_block)}, like);
    for (std::int64_t i = 0; i < c.layers; ++i)
      s->layers.push_back(
          {at::zeros({slots + 1, kv_heads, s->capacity / cache_block, dim, cache_block}, like),
           at::zeros({slots + 1, kv_heads, s->capacity, dim}, like), scratch});
    s->tokens = at::zeros({rows}, integers);
    s->positions = at::zeros({rows}, integers);
    for (at::Tensor* x :
         {&s->where.slots, &s->where.positions, &s->where.prompt_slots, &s->where.shared})
      *x = at::zeros({rows}, at::kLong);
    const auto buffer = [&](at::IntArrayRef shape) { return at::empty(shape, like); };
    s->hidden = buffer({rows, c.hidden_size});
    s->normed = buffer({rows, c.hidden_size});
    s->qkv = buffer({rows, c.q_size() + 2 * c.kv_size()});
    s->q = buffer({kv_heads, rows, group, dim});
    s->k = buffer({kv_heads, rows, dim});
    s->v = buffer({kv_heads, rows, dim});
    s->attention = buffer({rows, c.q_size()});
    s->middle = buffer({rows, c.hidden_size});
    s->gate_up = buffer({rows, 2 * c.intermediate_size});
    s->act = buffer({rows, c.intermediate_size});
    s->logits = buffer({rows, c.vocab_size});
  } catch (const std::exception& e) {
    return base::fail(base::errc::unavailable,
                      "cannot allocate a cache of {} slots of {} positions: {}", slots, capacity,
                      e.what());
  }
  return cached_decoder(std::move(s));
}

at::Tensor cached_decoder::pass(const model_weights& weights, std::span<const cached_row> rows,
                                bool want_logits, const parallel_context& context) {
  static_cast<void>(context);  // of sizes one: checked where this was made
  state& s = *state_;
  const at::Tensor host_tokens = s.tokens.is_cpu() ? s.tokens : at::empty({s.rows}, at::kLong);
  auto* token = host_tokens.mutable_data_ptr<std::int64_t>();
  const auto numbers = [](const at::Tensor& x) { return x.mutable_data_ptr<std::int64_t>(); };
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const bool used = r < static_cast<std::int64_t>(rows.size());
    const cached_row row =
        used ? rows[static_cast<std::size_t>(r)] : cached_row{s.slots, 0, 0, s.slots, 0};
    token[r] = row.token;
    numbers(s.where.slots)[r] = row.slot;
    numbers(s.where.positions)[r] = row.position;
    numbers(s.where.prompt_slots)[r] = row.prompt_slot;
    numbers(s.where.shared)[r] = row.shared;
  }
  s.tokens.copy_(host_tokens);
  s.positions.copy_(s.where.positions);

  const double eps = s.config.rms_norm_eps;
  at::Tensor no_rstd;
  at::index_select_out(s.hidden, weights.embedding, 0, s.tokens);
  for (std::size_t i = 0; i < weights.blocks.size(); ++i) {
    const block_weights& w = weights.blocks[i];
    ops::rms_norm(s.hidden, w.attention_norm, eps, s.normed, no_rstd);
    if (w.qkv_bias.defined())
      at::addmm_out(s.qkv, w.qkv_bias, s.normed, w.qkv.t());
    else
      at::mm_out(s.qkv, s.normed, w.qkv.t());
    ops::split_heads({s.shape, w.q_norm, w.k_norm, eps, s.rope.cos, s.rope.sin, s.positions}, s.qkv,
                     s.q, s.k, s.v, no_rstd);
    ops::cached_attention(s.shape, s.q, s.k, s.v, s.where, s.layers[i], s.attention);
    at::addmm_out(s.middle, s.hidden, s.attention, w.out.t());
    ops::rms_norm(s.middle, w.mlp_norm, eps, s.normed, no_rstd);
    at::mm_out(s.gate_up, s.normed, w.gate_up.t());
    ops::swiglu(s.gate_up, s.act);
    at::addmm_out(s.hidden, s.middle, s.act, w.down.t());
  }
  if (!want_logits) return {};
  ops::rms_norm(s.hidden, weights.final_norm, eps, s.normed, no_rstd);
  at::mm_out(s.logits, s.normed, weights.head.t());
  return s.logits;
}

void cached_decoder::copy_slot(std::int64_t from, std::int64_t to, std::int64_t begin,
                               std::int64_t end) {
  const std::int64_t block = begin / cache_block,
                     blocks = (end + cache_block - 1) / cache_block - block;
  for (ops::layer_cache& layer : state_->layers) {
    layer.keys.select(0, to)
        .narrow(1, block, blocks)
        .copy_(layer.keys.select(0, from).narrow(1, block, blocks));
    layer.values.select(0, to)
        .narrow(1, begin, end - begin)
        .copy_(layer.values.select(0, from).narrow(1, begin, end - begin));
  }
}

cached_decoder::cached_decoder(std::unique_ptr<state> parts) : state_(std::move(parts)) {}
cached_decoder::cached_decoder(cached_decoder&&) noexcept = default;
cached_decoder& cached_decoder::operator=(cached_decoder&&) noexcept = default;
cached_decoder::~cached_decoder() = default;

}  // namespace quern::policy
