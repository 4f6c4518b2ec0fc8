// The functions of the CUDA table (contracts: kernels.h), and what its files share.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "policy/device/kernels.h"

namespace quern::policy::device {

int32_t add_rms_norm(int32_t type, int32_t rows, int32_t width, float eps, const void* delta,
                     void* x, const void* w, void* y, float* rstd, void* stream);
int32_t rms_norm_backward(int32_t type, int32_t rows, int32_t width, const void* dy, const void* x,
                          const void* w, const float* rstd, void* dx, float* dw, float* room,
                          void* stream);
int32_t swiglu(int32_t type, int64_t rows, int64_t width, const void* gate_up, void* act,
               void* stream);
int32_t swiglu_backward(int32_t type, int64_t rows, int64_t width, const void* d_act,
                        const void* gate_up, void* d_gate_up, void* stream);
int32_t split_heads(int32_t type, quern_heads shape, quern_head_steps how, int32_t rows,
                    const void* qkv, const int64_t* positions, void* q, void* k, void* v,
                    float* rstd, void* stream);
int32_t split_heads_backward(int32_t type, quern_heads shape, quern_head_steps how, int32_t rows,
                             const void* dq, const void* dk, const void* dv, const void* qkv,
                             const float* rstd, const int64_t* positions, void* dqkv,
                             float* dq_norm, float* dk_norm, float* room, void* stream);
int32_t softmax_tile(int64_t rows, int64_t columns, int64_t group, int64_t first, float scale,
                     float* s, float* lse, void* stream);
int32_t softmax_tile_backward(int64_t rows, int64_t columns, int64_t group, int64_t first,
                              float scale, float* s, float* dp, const float* lse,
                              const float* delta, void* stream);
int32_t log_softmax_rows(int64_t rows, int64_t columns, int64_t valid, const float* z,
                         const int64_t* targets, const float* inverse_temperature, float* log_prob,
                         float* entropy, float* lse, void* stream);
int32_t log_softmax_gradient(int32_t type, int64_t rows, int64_t columns, int64_t valid,
                             const float* z, const int64_t* targets,
                             const float* inverse_temperature, const float* lse,
                             const float* gradient, void* out, void* stream);
int32_t adamw(quern_adamw how, int64_t count, float* master, int32_t gradient_type,
              const void* gradient, float* first, float* second, int32_t weight_type, void* weights,
              void* stream);
int32_t apply_edits(int32_t* words, const int32_t* edits, int32_t count, void* stream);
int32_t begin_pass(int32_t rows, const int32_t* slot, const int32_t* given_position,
                   const int32_t* given_token, const int32_t* state, int32_t* position,
                   int32_t* token, quern_attention_plan plan, void* stream);
int32_t take_rows(int32_t type, int32_t rows, int32_t width, const void* table,
                  const int32_t* index, void* out, void* stream);
int32_t heads_to_pages(int32_t type, quern_heads shape, quern_head_steps how, quern_rows rows,
                       const void* qkv, const void* bias, quern_pages pages, void* q, void* stream);
int32_t paged_attention(int32_t type, quern_heads shape, quern_rows rows, quern_pages pages,
                        quern_attention_plan plan, quern_attention_room room, const void* q,
                        void* out, void* stream);
int32_t gather_pages(int32_t type, quern_heads shape, quern_pages pages, int32_t sequences,
                     int32_t longest, const int32_t* slot, const int32_t* begin, void* keys,
                     void* values, void* stream);
int32_t copy_pages(void* base, int64_t slab_bytes, int32_t slabs, int64_t page_bytes,
                   const int32_t* pairs, int32_t count, void* stream);
int32_t sample(quern_sampling what, int32_t* state, quern_sampled* out, void* stream);
int32_t few_rows_product(int32_t type, int32_t rows, int32_t columns, int32_t width, const void* x,
                         const void* w, const void* bias, void* y, void* stream);
int32_t few_rows_swiglu(int32_t type, int32_t rows, int32_t columns, int32_t width, const void* x,
                        const void* w, void* act, void* stream);
int32_t hash_elements(int32_t type, quern_hashed_part what, const void* x, uint64_t* sums,
                      void* stream);

/// paged_attention for what the tensor-core form does not do; `scale` has the factor of base 2.
int32_t plain_attention(int32_t type, quern_heads shape, quern_rows rows, quern_pages pages,
                        const void* q, void* out, float scale, void* stream);

/// out[i] += sum over p of room[p * width + i], in the order of p.
int32_t add_parts(int parts, int width, const float* room, float* out, cudaStream_t stream);

}  // namespace quern::policy::device
