// The policy's small kernels, as a table of plain C functions over raw pointers and a stream. Two
// tables exist: the CUDA one (libquern_policy_cuda.so, this folder) and one in scalar C++ on host
// memory (host_*.cpp), which says in the plainest words what each function
// computes, is what the CUDA one is tested against, and lets the engine around the kernels be
// tested without a device.
//
// Conventions. Data is row-major and contiguous; `type` says what element `void*` data has,
// arithmetic is float32 whatever it is, statistics and logits are float32. Every row is computed in
// an order that depends on its own length and nothing else: not on how many rows there are, nor on
// its place among them. Functions queue work on `stream` (a cudaStream_t) and return 0 or a
// cudaError_t; they allocate nothing and wait for nothing, so they may be captured into graphs.
// Sizes out of range are 1 (cudaErrorInvalidValue), with nothing queued.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum quern_element { quern_f32 = 0, quern_bf16 = 1 };

/// A row of qkv is [kv_heads * group q heads | kv_heads k heads | kv_heads v heads] of dim each.
struct quern_heads {
  int32_t kv_heads, group, dim; /* dim even, at most 256 */
};

/// Norms over dim ([dim] weights, null: none), then rotation of (i, i + dim / 2) by
/// cos/sin[position, i], float32 [positions, dim / 2].
struct quern_head_steps {
  const void *q_norm, *k_norm;
  float eps;
  const float *cos, *sin;
};

/// One layer's cache: [pages, kv_heads, page, dim] each. `tables` [slots, table_width]: page t of a
/// slot holds its positions from t * page on. page is a multiple of 32.
struct quern_pages {
  void *keys, *values;
  const int32_t* tables;
  int32_t page, table_width;
};

/// Rows of a pass. slot -1 or position -1: padding, which reads and writes nothing.
struct quern_rows {
  int32_t count;
  const int32_t *slot, *position; /* [count] */
};

/// State of a slot: words of int32 on the device.
enum quern_slot_word {
  quern_slot_active = 0,  ///< 0: its rows are padding
  quern_slot_token,       ///< to be fed next
  quern_slot_position,    ///< of that token
  quern_slot_index,       ///< tokens sampled so far: the position among its random numbers
  quern_slot_limit,       ///< the completion is full at this many
  quern_slot_greedy,
  quern_slot_inverse_temperature,  ///< bits of a float
  quern_slot_stops,                ///< how many of the stop ids below count
  quern_slot_key_low,
  quern_slot_key_high,
  quern_slot_stream_low,
  quern_slot_stream_high,
  quern_slot_first_stop = 16,
  quern_slot_words = 32
};
enum { quern_most_stops = quern_slot_words - quern_slot_first_stop };

/// Work of paged attention, made by begin_pass once and used by every layer: `items` holds the
/// number of (row, split) pairs, then the pairs by ascending row and split; first_item [rows].
/// Room for 1 + 2 * rows * splits words, splits those of the longest row.
struct quern_attention_plan {
  int32_t *items, *first_item;
};
/// The most keys of one split; a row's splits are as long as each other, in whole quern_split_step
/// keys, but for the last. Fixed, so that a row's sums do not depend on the batch; long, since
/// every split adds its part written, a fence, an atomic and the parts read again.
enum { quern_split = 1024, quern_split_step = 64 };

/// Room that paged_attention needs: per item and query head dim + 2 floats, and one zeroed counter
/// per row and kv head, which is zero again afterwards.
struct quern_attention_room {
  float* partial;
  int32_t* counters;
};

/// What one sampling gives. flags: 1 sampled (0: the slot was not active), 2 a stop id, 4 full.
struct quern_sampled {
  int32_t token;
  float log_prob;      ///< at the sampling temperature (greedy: 1)
  float raw_log_prob;  ///< at temperature 1
  int32_t flags;
};

/// Columns of logits that one block looks at. `room` of sample is [count, chunks] of 4 floats and
/// `counters` [count] zeroed words, zero again afterwards; at most 128 chunks.
enum { quern_chunk = 8192 };

struct quern_sampling {
  int32_t count;
  const int32_t* logit_row;  ///< [count]; null: i
  const int32_t* slot;       ///< [count]; -1: none
  const float* logits;       ///< [rows, columns]
  int64_t columns, valid;    ///< ids at or above `valid` are never drawn
  float* room;
  int32_t* counters;
  const int32_t* given;  ///< [count]: the token that is taken instead of drawn; -1 or null: none
};

/// Rows that few_rows_product and few_rows_swiglu take at most.
enum { quern_few_rows = 4 };

/// Sums over rows (gradients of norm weights) are made in this many parts at most: `room` of the
/// backward functions is quern_partials * width floats (split_heads_backward: 2 * dim).
enum { quern_partials = 256 };

struct quern_adamw {
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  float correction1, correction2;  ///< 1 - beta^step
  const float* divisor;            ///< of gradients, on the device; null: 1
  const float* skip;               ///< on the device: not 0: nothing is changed; null: 0
};

/// Part of a tensor, row after row: its element (r, c) is number first + r * stride + c of the
/// whole.
struct quern_hashed_part {
  int64_t rows, columns;
  uint64_t first, stride;
  uint64_t seed_low, seed_high; /* of the tensor */
};

struct quern_policy_kernels {
  const char* name;
  const char* (*problem)(int32_t code);
  int32_t (*memory)(int64_t* free_bytes, int64_t* total_bytes);
  int32_t (*multiprocessors)(int32_t* count);

  /// x += delta (rounded to the element; delta may be null), then y = x rstd w with
  /// rstd = 1 / sqrt(mean(x^2) + eps), x as stored. rstd [rows] may be null. width at most 12000.
  int32_t (*add_rms_norm)(int32_t type, int32_t rows, int32_t width, float eps, const void* delta,
                          void* x, const void* w, void* y, float* rstd, void* stream);
  /// Adds into dx; adds into dw (float32 [width]).
  int32_t (*rms_norm_backward)(int32_t type, int32_t rows, int32_t width, const void* dy,
                               const void* x, const void* w, const float* rstd, void* dx, float* dw,
                               float* room, void* stream);

  /// act = silu(gate) * up; a row of gate_up is [gate | up] of `width` each.
  int32_t (*swiglu)(int32_t type, int64_t rows, int64_t width, const void* gate_up, void* act,
                    void* stream);
  /// Writes d_gate_up, which may be gate_up itself.
  int32_t (*swiglu_backward)(int32_t type, int64_t rows, int64_t width, const void* d_act,
                             const void* gate_up, void* d_gate_up, void* stream);

  /// For training: q [kv_heads, rows, group, dim], k and v [kv_heads, rows, dim]; rstd of the norms
  /// [rows, (group + 1) kv_heads], q heads first, may be null.
  int32_t (*split_heads)(int32_t type, struct quern_heads shape, struct quern_head_steps how,
                         int32_t rows, const void* qkv, const int64_t* positions, void* q, void* k,
                         void* v, float* rstd, void* stream);
  /// Writes dqkv; adds into dq_norm and dk_norm (float32) where there are norms.
  int32_t (*split_heads_backward)(int32_t type, struct quern_heads shape,
                                  struct quern_head_steps how, int32_t rows, const void* dq,
                                  const void* dk, const void* dv, const void* qkv,
                                  const float* rstd, const int64_t* positions, void* dqkv,
                                  float* dq_norm, float* dk_norm, float* room, void* stream);

  /// In place, float32: scores -> softmax(scale scores) over the first `first + row / group`
  /// columns, 0 beyond; lse [rows].
  int32_t (*softmax_tile)(int64_t rows, int64_t columns, int64_t group, int64_t first, float scale,
                          float* s, float* lse, void* stream);
  /// s: scores -> probabilities from lse; dp -> p (dp - delta) scale.
  int32_t (*softmax_tile_backward)(int64_t rows, int64_t columns, int64_t group, int64_t first,
                                   float scale, float* s, float* dp, const float* lse,
                                   const float* delta, void* stream);

  /// Log-softmax of z inverse_temperature[row] over the first `valid` columns: the target's, the
  /// row's entropy, lse. The same sums in the same order as `sample`.
  int32_t (*log_softmax_rows)(int64_t rows, int64_t columns, int64_t valid, const float* z,
                              const int64_t* targets, const float* inverse_temperature,
                              float* log_prob, float* entropy, float* lse, void* stream);
  /// out = gradient[row] inverse_temperature[row] (onehot(target) - softmax), 0 beyond `valid`.
  /// `out` has elements of `type`; it may be z itself if that is float32.
  int32_t (*log_softmax_gradient)(int32_t type, int64_t rows, int64_t columns, int64_t valid,
                                  const float* z, const int64_t* targets,
                                  const float* inverse_temperature, const float* lse,
                                  const float* gradient, void* out, void* stream);

  /// AdamW on flat arrays (Loshchilov and Hutter, arXiv 1711.05101), one pass:
  /// m, v, then w -= lr (weight_decay w + (m / c1) / (sqrt(v / c2) + epsilon)). `gradient` has
  /// elements of `gradient_type`; the new weights are also written to `weights`, of `weight_type`,
  /// rounded (may be null).
  int32_t (*adamw)(struct quern_adamw how, int64_t count, float* master, int32_t gradient_type,
                   const void* gradient, float* first, float* second, int32_t weight_type,
                   void* weights, void* stream);

  /// words[edits[2 i]] = edits[2 i + 1]; the places differ.
  int32_t (*apply_edits)(int32_t* words, const int32_t* edits, int32_t count, void* stream);
  /// Resolves a pass: a row whose given position is -1 takes position and token from its slot's
  /// state, and is padding if that is not active. Writes position and token of every row (padding:
  /// -1) and the plan, unless that is null.
  int32_t (*begin_pass)(int32_t rows, const int32_t* slot, const int32_t* given_position,
                        const int32_t* given_token, const int32_t* state, int32_t* position,
                        int32_t* token, struct quern_attention_plan plan, void* stream);
  /// out[r] = table[index[r]], zeros for an index of -1.
  int32_t (*take_rows)(int32_t type, int32_t rows, int32_t width, const void* table,
                       const int32_t* index, void* out, void* stream);
  /// For generation: q [rows, kv_heads * group, dim]; k and v go to their pages. `bias` of qkv may
  /// be null.
  int32_t (*heads_to_pages)(int32_t type, struct quern_heads shape, struct quern_head_steps how,
                            struct quern_rows rows, const void* qkv, const void* bias,
                            struct quern_pages pages, void* q, void* stream);
  /// Every row's queries attend to their slot's positions up to their own; out [rows, kv_heads *
  /// group, dim]. group at most 16 where dim is 64 or 128 and the element bfloat16 (tensor cores,
  /// split over keys), any otherwise (plainly; needs neither plan nor room).
  int32_t (*paged_attention)(int32_t type, struct quern_heads shape, struct quern_rows rows,
                             struct quern_pages pages, struct quern_attention_plan plan,
                             struct quern_attention_room room, const void* q, void* out,
                             void* stream);
  /// keys and values [total, kv_heads, dim] of whole sequences one after another: positions 0 to
  /// begin[i + 1] - begin[i] of slot[i] go to rows from begin[i] on (begin on the device).
  /// `longest` is the largest difference.
  int32_t (*gather_pages)(int32_t type, struct quern_heads shape, struct quern_pages pages,
                          int32_t sequences, int32_t longest, const int32_t* slot,
                          const int32_t* begin, void* keys, void* values, void* stream);
  /// Copies pages of `page_bytes` within each of `slabs` arrays that lie `slab_bytes` apart:
  /// pairs [count, 2] of (from, to). Both sizes are multiples of 16.
  int32_t (*copy_pages)(void* base, int64_t slab_bytes, int32_t slabs, int64_t page_bytes,
                        const int32_t* pairs, int32_t count, void* stream);
  /// Draws a token for each slot from its row of logits, by inversion with the slot's addressed
  /// number (policy/engine/sampler.hpp, the same number for the same seed, request and index), or
  /// takes the highest, or the token that is given, of which the log-probs are then the same bits
  /// as if it had been drawn; then advances the slot's state: token, position, index, and active
  /// where the completion has ended. A slot must not be named twice.
  int32_t (*sample)(struct quern_sampling what, int32_t* state, struct quern_sampled* out,
                    void* stream);

  /// For generation of a few sequences: y[r, i] = x[r] . w[i] + bias[i], rounded once. x [rows,
  /// width], w [columns, width], bias [columns] or null, y [rows, columns]. rows at most
  /// quern_few_rows; rows of x and w multiples of 16 bytes, x and w aligned to them. The order of
  /// a sum depends on width and columns.
  int32_t (*few_rows_product)(int32_t type, int32_t rows, int32_t columns, int32_t width,
                              const void* x, const void* w, const void* bias, void* y,
                              void* stream);
  /// act[r, i] = silu(x[r] . w[i]) * (x[r] . w[columns + i]), both products rounded: the product
  /// and swiglu in one. w [2 * columns, width], act [rows, columns]; the rest as above.
  int32_t (*few_rows_swiglu)(int32_t type, int32_t rows, int32_t columns, int32_t width,
                             const void* x, const void* w, void* act, void* stream);

  /// Adds the lanes of policy/weights/weight_hash.hpp's element_hash over the elements as float32
  /// to sums[0] (low) and sums[1] (high).
  int32_t (*hash_elements)(int32_t type, struct quern_hashed_part what, const void* x,
                           uint64_t* sums, void* stream);
};

/// The CUDA table; of libquern_policy_cuda.so.
const struct quern_policy_kernels* quern_policy_cuda_kernels(void);

#ifdef __cplusplus
}
#endif
