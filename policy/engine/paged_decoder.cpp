// A pass over pages.
#include "policy/engine/paged_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <tuple>

#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include "policy/engine/device_queue.hpp"

namespace quern::policy {
namespace {

template <class T>
T* pointer(const at::Tensor& x) {
  return x.defined() ? static_cast<T*>(x.mutable_data_ptr()) : nullptr;
}

}  // namespace

std::int64_t pass_shape::words() const {
  const auto n = static_cast<std::int64_t>(chunks.size());
  return 3LL * rows + 3LL * samples + sources + (n > 0 ? 3 * n + 2 : 0);
}

struct paged_decoder::state {
  const quern_policy_kernels* kernels = nullptr;
  model_config config;
  model_weights weights;
  paged_sizes sizes;
  quern_heads heads{};
  std::int32_t element = quern_f32, table_width = 0;
  at::Device device = at::kCPU;
  rope_table rope;
  at::Tensor store;  ///< [layers, 2, pages, kv_heads, page, dim]
  at::Tensor words;  ///< states, then tables
  at::Tensor position, token, items, first_item, partial, counters;
  at::Tensor hidden, normed, chosen, delta, qkv, q, attention, gate_up, act, logits;
  at::Tensor sample_room, sample_counters;

  void check(std::int32_t code, const char* what) const {
    if (code != 0)
      throw std::runtime_error(
          fmt::format("kernel {} on {}: {}", what, device.str(), kernels->problem(code)));
  }
  quern_pages pages_of(std::int64_t layer) const;
  void allocate();
  void layer(std::int64_t index, const pass_shape& shape, const std::int32_t* slots,
             const std::int32_t* tail, const at::Tensor& added, void* stream);
  void attend(const pass_shape& shape, const quern_rows& rows, const quern_pages& pages,
              const std::int32_t* tail, at::Tensor& out, void* stream);
  /// out = input w^T + bias (may be undefined).
  void product(at::Tensor& out, const at::Tensor& input, const at::Tensor& w,
               const at::Tensor& bias, void* stream) const;
  void gated(const pass_shape& shape, const at::Tensor& input, const at::Tensor& w, void* stream);
  [[nodiscard]] bool is_few(const at::Tensor& input) const;
};

/// For a few rows cuBLAS is far from the memory's speed (policy_kernel_times prints both). Never of
/// float32, whose results are held to those of the learner's products bit by bit.
bool paged_decoder::state::is_few(const at::Tensor& input) const {
  return element == quern_bf16 && input.size(0) <= quern_few_rows && input.size(1) % 8 == 0;
}

void paged_decoder::state::product(at::Tensor& out, const at::Tensor& input, const at::Tensor& w,
                                   const at::Tensor& bias, void* stream) const {
  if (is_few(input))
    check(kernels->few_rows_product(element, static_cast<std::int32_t>(input.size(0)),
                                    static_cast<std::int32_t>(w.size(0)),
                                    static_cast<std::int32_t>(w.size(1)), input.const_data_ptr(),
                                    w.const_data_ptr(), pointer<void>(bias), out.mutable_data_ptr(),
                                    stream),
          "few_rows_product");
  else if (bias.defined())
    at::addmm_out(out, bias, input, w.t());
  else
    at::mm_out(out, input, w.t());
}

/// act = swiglu(input w^T).
void paged_decoder::state::gated(const pass_shape& shape, const at::Tensor& input,
                                 const at::Tensor& w, void* stream) {
  const auto inner = static_cast<std::int32_t>(config.intermediate_size);
  if (is_few(input))
    return check(kernels->few_rows_swiglu(
                     element, shape.rows, inner, static_cast<std::int32_t>(w.size(1)),
                     input.const_data_ptr(), w.const_data_ptr(), act.mutable_data_ptr(), stream),
                 "few_rows_swiglu");
  at::Tensor wide = gate_up.narrow(0, 0, shape.rows);
  at::mm_out(wide, input, w.t());
  check(kernels->swiglu(element, shape.rows, inner, gate_up.const_data_ptr(),
                        act.mutable_data_ptr(), stream),
        "swiglu");
}

void paged_decoder::state::allocate() {
  const model_config& c = config;
  const auto like = weights.embedding.options(), integers = like.dtype(at::kInt),
             floats = like.dtype(at::kFloat);
  const std::int64_t rows = sizes.rows, samples = sizes.slots;
  table_width = (sizes.capacity + sizes.page - 1) / sizes.page;
  store = at::empty({c.layers, 2, sizes.pages, c.kv_heads, sizes.page, c.head_dim}, like);
  words = at::zeros({std::int64_t{sizes.slots} * (quern_slot_words + table_width)}, integers);
  position = at::zeros({rows}, integers);
  token = at::zeros({rows}, integers);
  const std::int64_t splits = (std::int64_t{sizes.capacity} + quern_split - 1) / quern_split,
                     most = sizes.decode_rows * splits;
  items = at::zeros({1 + 2 * most}, integers);
  first_item = at::zeros({std::max(sizes.decode_rows, 1)}, integers);
  partial = at::empty({most * c.heads * (c.head_dim + 2)}, floats);
  counters = at::zeros({sizes.decode_rows * c.kv_heads}, integers);
  // Zeros: rows that are padding are computed, too, and should not be full of NaN.
  hidden = at::zeros({rows, c.hidden_size}, like);
  normed = at::zeros({rows, c.hidden_size}, like);
  chosen = at::zeros({samples, c.hidden_size}, like);
  delta = at::zeros({rows, c.hidden_size}, like);
  qkv = at::zeros({rows, c.q_size() + 2 * c.kv_size()}, like);
  q = at::zeros({rows, c.q_size()}, like);
  attention = at::zeros({rows, c.q_size()}, like);
  gate_up = at::zeros({rows, 2 * c.intermediate_size}, like);
  act = at::zeros({rows, c.intermediate_size}, like);
  logits = at::zeros({std::max<std::int64_t>(samples, sizes.decode_rows), c.vocab_size}, floats);
  const std::int64_t chunks = (sizes.valid + quern_chunk - 1) / quern_chunk;
  sample_room = at::zeros({samples, chunks, 4}, floats);
  sample_counters = at::zeros({samples}, integers);
  rope = rope_table::make(c, sizes.capacity, at::kFloat, device);
}

base::expected<paged_decoder> paged_decoder::make(const quern_policy_kernels& kernels,
                                                  const parameter_arena& weights,
                                                  const paged_sizes& sizes) {
  const model_config& c = weights.config;
  const at::ScalarType type = weights.flat.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16)
    return base::fail(base::errc::invalid_argument,
                      "pages hold float32 or bfloat16, the weights are {}", at::toString(type));
  if (sizes.slots < 1 || sizes.rows < sizes.decode_rows || sizes.decode_rows < 1 ||
      sizes.capacity < 1 || sizes.page < 32 || sizes.page % 32 != 0 || sizes.pages < 1 ||
      sizes.valid < 1 || sizes.valid > c.vocab_size || c.head_dim > 256)
    return base::fail(base::errc::invalid_argument,
                      "a store of {} slots, {} positions each, {} pages of {} (a multiple of 32), "
                      "{} rows, of which {} decode, {} of {} ids, head_dim {} (at most 256)",
                      sizes.slots, sizes.capacity, sizes.pages, sizes.page, sizes.rows,
                      sizes.decode_rows, sizes.valid, c.vocab_size, c.head_dim);
  auto s = std::make_unique<state>();
  s->kernels = &kernels;
  s->config = c;
  s->weights = weights.weights;
  s->sizes = sizes;
  s->heads = {static_cast<std::int32_t>(c.kv_heads),
              static_cast<std::int32_t>(c.heads / c.kv_heads),
              static_cast<std::int32_t>(c.head_dim)};
  s->element = type == at::kFloat ? quern_f32 : quern_bf16;
  s->device = weights.flat.device();
  try {
    s->allocate();
  } catch (const std::exception& e) {
    return base::fail(base::errc::unavailable,
                      "cannot allocate a store of {} pages of {} bytes and buffers of {} rows: {}",
                      sizes.pages, page_bytes(c, sizes.page, type == at::kBFloat16), sizes.rows,
                      e.what());
  }
  return paged_decoder(std::move(s));
}

std::int64_t paged_decoder::page_bytes(const model_config& config, std::int32_t page, bool half) {
  return config.layers * 2 * config.kv_size() * page * (half ? 2 : 4);
}

quern_pages paged_decoder::state::pages_of(std::int64_t layer) const {
  return {store[layer][0].mutable_data_ptr(), store[layer][1].mutable_data_ptr(),
          pointer<std::int32_t>(words) + std::int64_t{sizes.slots} * quern_slot_words, sizes.page,
          table_width};
}

/// `tail`: the words of the chunks on the device.
void paged_decoder::state::attend(const pass_shape& shape, const quern_rows& rows,
                                  const quern_pages& pages, const std::int32_t* tail,
                                  at::Tensor& out, void* stream) {
  if (shape.chunks.empty()) {
    check(
        kernels->paged_attention(element, heads, rows, pages,
                                 {pointer<std::int32_t>(items), pointer<std::int32_t>(first_item)},
                                 {pointer<float>(partial), pointer<std::int32_t>(counters)},
                                 q.const_data_ptr(), out.mutable_data_ptr(), stream),
        "paged_attention");
    return;
  }
  std::int64_t total = 0;
  std::int32_t longest = 0, most_rows = 0;
  for (const flash_chunk& p : shape.chunks) {
    total += p.end;
    longest = std::max(longest, p.end);
    most_rows = std::max(most_rows, p.rows);
  }
  const auto chunks = static_cast<std::int32_t>(shape.chunks.size());
  const std::int32_t* begin_rows = tail + chunks;
  const std::int32_t* begin_keys = begin_rows + chunks + 1;
  const at::Tensor keys = at::empty({total, config.kv_heads, config.head_dim}, q.options()),
                   values = at::empty_like(keys);
  check(kernels->gather_pages(element, heads, pages, chunks, longest, tail, begin_keys,
                              keys.mutable_data_ptr(), values.mutable_data_ptr(), stream),
        "gather_pages");
  const auto lengths = [&](const std::int32_t* p) {
    const at::Tensor view = words;  // any int32 tensor of the device
    return at::from_blob(const_cast<std::int32_t*>(p), {chunks + 1}, view.options());
  };
  const auto result = at::_flash_attention_forward(
      q.narrow(0, 0, shape.rows).view({shape.rows, config.heads, config.head_dim}), keys, values,
      lengths(begin_rows), lengths(begin_keys), most_rows, longest, 0.0, true, false,
      std::optional<double>(1 / std::sqrt(static_cast<double>(config.head_dim))), std::nullopt,
      std::nullopt, std::optional<at::Tensor>(), std::optional<at::Tensor>());
  out = std::get<0>(result).view({shape.rows, config.q_size()});
}

/// One block; `added` (undefined in the first) goes to the residual stream before it, what the
/// block ends with stays in `delta` for the next.
void paged_decoder::state::layer(std::int64_t index, const pass_shape& shape,
                                 const std::int32_t* slots, const std::int32_t* tail,
                                 const at::Tensor& added, void* stream) {
  const block_weights& w = weights.blocks[static_cast<std::size_t>(index)];
  const auto eps = static_cast<float>(config.rms_norm_eps);
  const auto width = static_cast<std::int32_t>(config.hidden_size);
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, 0, shape.rows); };
  const quern_rows rows{shape.rows, slots, pointer<std::int32_t>(position)};
  at::Tensor projected = part(qkv), mixed = part(attention), result = part(delta);
  const at::Tensor input = part(normed), active = part(act);

  check(kernels->add_rms_norm(element, shape.rows, width, eps, pointer<void>(added),
                              hidden.mutable_data_ptr(), w.attention_norm.const_data_ptr(),
                              normed.mutable_data_ptr(), nullptr, stream),
        "add_rms_norm");
  product(projected, input, w.qkv, w.qkv_bias, stream);
  const quern_head_steps steps{pointer<void>(w.q_norm), pointer<void>(w.k_norm), eps,
                               pointer<float>(rope.cos), pointer<float>(rope.sin)};
  const quern_pages pages = pages_of(index);
  check(kernels->heads_to_pages(element, heads, steps, rows, qkv.const_data_ptr(), nullptr, pages,
                                q.mutable_data_ptr(), stream),
        "heads_to_pages");
  attend(shape, rows, pages, tail, mixed, stream);
  product(result, mixed, w.out, {}, stream);
  check(kernels->add_rms_norm(element, shape.rows, width, eps, delta.const_data_ptr(),
                              hidden.mutable_data_ptr(), w.mlp_norm.const_data_ptr(),
                              normed.mutable_data_ptr(), nullptr, stream),
        "add_rms_norm");
  gated(shape, input, w.gate_up, stream);
  product(result, active, w.down, {}, stream);
}

void paged_decoder::queue(const pass_shape& shape, const at::Tensor& input,
                          const at::Tensor& output) {
  state& s = *state_;
  void* stream = current_stream(s.device);
  const std::int32_t rows = shape.rows, samples = shape.samples;
  const auto width = static_cast<std::int32_t>(s.config.hidden_size);
  const auto* slots = pointer<std::int32_t>(input);
  const std::int32_t *given_position = slots + rows, *given_token = given_position + rows,
                     *logit_row = given_token + rows, *sample_slot = logit_row + samples,
                     *given = sample_slot + samples, *sources = given + samples,
                     *tail = sources + shape.sources;
  const bool flash = !shape.chunks.empty(), planned = !flash && rows <= s.sizes.decode_rows;
  const quern_attention_plan plan{planned ? pointer<std::int32_t>(s.items) : nullptr,
                                  planned ? pointer<std::int32_t>(s.first_item) : nullptr};
  if (!flash && !planned && s.element == quern_bf16)
    throw std::runtime_error(
        fmt::format("a pass of {} rows without a plan: at most {}", rows, s.sizes.decode_rows));
  auto* state_words = pointer<std::int32_t>(s.words);
  s.check(s.kernels->begin_pass(rows, slots, given_position, given_token, state_words,
                                pointer<std::int32_t>(s.position), pointer<std::int32_t>(s.token),
                                plan, stream),
          "begin_pass");
  s.check(s.kernels->take_rows(s.element, rows, width, s.weights.embedding.const_data_ptr(),
                               pointer<std::int32_t>(s.token), s.hidden.mutable_data_ptr(), stream),
          "take_rows");
  for (std::int64_t i = 0; i < s.config.layers; ++i)
    s.layer(i, shape, slots, tail, i == 0 ? at::Tensor() : s.delta, stream);
  if (samples == 0) return;
  s.check(s.kernels->add_rms_norm(s.element, rows, width, static_cast<float>(s.config.rms_norm_eps),
                                  s.delta.const_data_ptr(), s.hidden.mutable_data_ptr(),
                                  s.weights.final_norm.const_data_ptr(),
                                  s.normed.mutable_data_ptr(), nullptr, stream),
          "add_rms_norm");
  if (shape.sources > 0)
    s.check(s.kernels->take_rows(s.element, shape.sources, width, s.normed.const_data_ptr(),
                                 sources, s.chosen.mutable_data_ptr(), stream),
            "take_rows");
  const at::Tensor last =
      shape.sources > 0 ? s.chosen.narrow(0, 0, shape.sources) : s.normed.narrow(0, 0, rows);
  at::Tensor logits = s.logits.narrow(0, 0, last.size(0));
  if (s.element == quern_bf16)
    at::mm_out(logits, last, s.weights.head.t(), at::kFloat);
  else
    at::mm_out(logits, last, s.weights.head.t());
  const quern_sampling what{samples,
                            logit_row,
                            sample_slot,
                            pointer<float>(s.logits),
                            s.config.vocab_size,
                            s.sizes.valid,
                            pointer<float>(s.sample_room),
                            pointer<std::int32_t>(s.sample_counters),
                            given};
  s.check(s.kernels->sample(what, state_words, pointer<quern_sampled>(output), stream), "sample");
}

const at::Tensor& paged_decoder::words() const {
  return state_->words;
}
std::int64_t paged_decoder::state_offset(std::int32_t slot) const {
  return std::int64_t{slot} * quern_slot_words;
}
std::int64_t paged_decoder::table_offset(std::int32_t slot) const {
  return std::int64_t{state_->sizes.slots} * quern_slot_words +
         std::int64_t{slot} * state_->table_width;
}

void paged_decoder::apply(const at::Tensor& edits) {
  state_->check(state_->kernels->apply_edits(
                    pointer<std::int32_t>(state_->words), pointer<std::int32_t>(edits),
                    static_cast<std::int32_t>(edits.numel() / 2), current_stream(state_->device)),
                "apply_edits");
}

void paged_decoder::copy_pages(const at::Tensor& pairs) {
  state& s = *state_;
  const std::int64_t bytes =
      page_bytes(s.config, s.sizes.page, s.element == quern_bf16) / (2 * s.config.layers);
  s.check(s.kernels->copy_pages(
              s.store.mutable_data_ptr(), bytes * s.sizes.pages,
              static_cast<std::int32_t>(2 * s.config.layers), bytes, pointer<std::int32_t>(pairs),
              static_cast<std::int32_t>(pairs.numel() / 2), current_stream(s.device)),
          "copy_pages");
}

paged_decoder::paged_decoder(std::unique_ptr<state> parts) : state_(std::move(parts)) {}
paged_decoder::paged_decoder(paged_decoder&&) noexcept = default;
paged_decoder& paged_decoder::operator=(paged_decoder&&) noexcept = default;
paged_decoder::~paged_decoder() = default;

}  // namespace quern::policy
