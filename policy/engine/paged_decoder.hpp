// The decoder over a KV store in pages, with sampling inside the pass: rows of tokens in, sampled
// tokens and the slots' next state out, nothing for the host to wait for. On a GPU a pass of a
// given shape can be captured once and replayed.
//
// Everything that a pass reads is in device memory: its input words (layout: pass_shape), the
// slots' state and page tables, the weights. So the same graph serves whatever is in them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/status.hpp"
#include "policy/device/library.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/model.hpp"

namespace quern::policy {

struct paged_sizes {
  std::int32_t slots = 0;     ///< sequences
  std::int32_t capacity = 0;  ///< positions of one
  std::int32_t pages = 0, page = 64;
  std::int32_t rows = 0;         ///< of the largest pass
  std::int32_t decode_rows = 0;  ///< of the largest pass with paged attention
  std::int64_t valid = 0;        ///< ids below may be sampled
};

/// Stretch of one sequence in a pass with flash attention: `rows` rows that end at position `end`.
struct flash_chunk {
  std::int32_t slot = 0, rows = 0, end = 0;
};

/// What a pass consists of. Its input words, int32: slot, position, token of each row (position -1:
/// position and token are the slot's own, if it is active; slot -1: padding), then logit_row and
/// slot and given token of each sample (slot -1: none; token -1: one is drawn), then, if there are
/// any, the rows whose logits are computed
/// (`sources`; 0: all rows in order), then of each chunk its slot, then the begins of the chunks'
/// rows and keys, one more than chunks.
struct pass_shape {
  std::int32_t rows = 0, samples = 0, sources = 0;
  std::vector<flash_chunk> chunks;  ///< empty: attention of single rows over pages

  std::int64_t words() const;
};

/// Not thread-safe. Work goes to the current stream. Throws std::runtime_error (or LibTorch's own)
/// where the device fails; the decoder is useless then.
class paged_decoder {
 public:
  /// `weights`: float32 or bfloat16, on the device of the kernels. Errors: sizes, memory.
  static base::expected<paged_decoder> make(const quern_policy_kernels& kernels,
                                            const parameter_arena& weights,
                                            const paged_sizes& sizes);
  paged_decoder(paged_decoder&&) noexcept;
  paged_decoder& operator=(paged_decoder&&) noexcept;
  ~paged_decoder();

  /// Bytes that one page takes in all layers.
  static std::int64_t page_bytes(const model_config& config, std::int32_t page, bool half);

  /// Queues a pass: `input` [words] on the device, `output` [samples, 4] int32 (quern_sampled).
  void queue(const pass_shape& shape, const at::Tensor& input, const at::Tensor& output);
  /// The slots' words and page tables, flat int32: edits go there.
  const at::Tensor& words() const;
  /// Offset of a slot's state, and of its page table.
  std::int64_t state_offset(std::int32_t slot) const;
  std::int64_t table_offset(std::int32_t slot) const;
  /// `edits` [n, 2] int32 on the device.
  void apply(const at::Tensor& edits);
  /// `pairs` [n, 2] int32 on the device: page copies in all layers.
  void copy_pages(const at::Tensor& pairs);

 private:
  struct state;
  explicit paged_decoder(std::unique_ptr<state> parts);
  std::unique_ptr<state> state_;
};

}  // namespace quern::policy
