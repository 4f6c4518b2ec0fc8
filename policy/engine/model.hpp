// The decoder itself: forward and backward over packed rows, for Qwen2, Qwen3 and Llama-3. No
// autograd: every layer's backward is written out, so that activations live in one workspace of
// known size and gradients land in the gradient arena as the layers come.
//
// Device and element type are those of the arena. On the CPU the small operations (norm, rotary,
// SwiGLU, softmax) are fused host kernels; elsewhere they are compositions of ATen operators with
// the same formulas (ops.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/status.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/parallel.hpp"
#include "policy/text/model_config.hpp"
#include "policy/weights/memory_plan.hpp"

namespace quern::policy {

/// A stretch of packed rows that attend causally to each other and, before that, to all rows of a
/// prefix stretch (a prompt that several completions share and that is computed once). Positions go
/// on where the prefix ends.
struct segment {
  std::int64_t begin = 0, end = 0;
  std::int64_t prefix_begin = 0,
               prefix_end =
                   0;  ///< equal: no prefix; a prefix has none itself and lies before its users
};

/// Rows of one forward pass. Segments are disjoint, ordered and cover all rows.
struct packed_rows {
  at::Tensor tokens;     ///< [rows] int64, on the model's device
  at::Tensor positions;  ///< [rows] int64, on the model's device
  std::vector<segment> segments;
  /// What attention over all segments at once needs to know, on a GPU: [segments + 1] int32, where
  /// rows and keys of a segment begin; the row of each key, int64, undefined where no segment has a
  /// prefix and keys are the rows themselves.
  at::Tensor begin_rows, begin_keys, key_rows;
  std::int64_t most_rows = 0, most_keys = 0;  ///< of one segment
  std::int64_t rows() const { return tokens.size(0); }
};

/// The same on the host: keys of a segment are those of its prefix, then its own.
struct segment_keys {
  std::vector<std::int32_t> begin_rows{0}, begin_keys{0};
  std::vector<std::int64_t> rows;
  std::int64_t most_rows = 0, most_keys = 0;
  bool shared = false;
};
segment_keys keys_of(std::span<const segment> segments);

/// Builds the tensors; refuses tokens outside the vocabulary, positions at or above max_positions,
/// and bad segments.
base::expected<packed_rows> make_rows(const model_config& config, std::vector<std::int64_t> tokens,
                                      std::vector<std::int64_t> positions,
                                      std::vector<segment> segments, at::Device device);

/// cos and sin of the rotary angles, [positions, head_dim / 2] each, computed in double.
struct rope_table {
  at::Tensor cos, sin;
  static rope_table make(const model_config& config, std::int64_t positions, at::ScalarType type,
                         at::Device device);
};

/// Told during `backward` that all gradients of a bucket (index into catalogue::buckets) have got
/// what this pass adds to them: the head's first, then the layers from the last on, the embedding's
/// at the end.
using bucket_done = std::function<void(std::size_t bucket)>;

/// Not thread-safe (workspace); the arena may be written between calls.
class decoder {
 public:
  /// Refuses a parallel context that is not implemented.
  static base::expected<decoder> make(const parameter_arena& arena,
                                      const parallel_context& context = {},
                                      recompute_mode recompute = recompute_mode::none);
  decoder(decoder&&) noexcept;
  decoder& operator=(decoder&&) noexcept;
  ~decoder();

  /// Hidden states after the final norm, [rows, hidden_size]; valid until the next call.
  /// Activations are kept for `backward` if `keep`.
  at::Tensor forward(const model_weights& weights, const packed_rows& rows, bool keep,
                     const parallel_context& context = {});
  /// Adds the gradients of everything below the head into `gradients`, given d loss / d (result of
  /// the last forward with keep).
  void backward(const model_weights& weights, const packed_rows& rows, const at::Tensor& d_hidden,
                model_weights& gradients, const bucket_done& done = {},
                const parallel_context& context = {});

  const model_config& config() const;
  /// Of the buffers that forward and backward have grown to; the attention's tiles apart.
  std::size_t activation_bytes() const;

 private:
  struct state;
  explicit decoder(std::unique_ptr<state> parts);
  std::unique_ptr<state> state_;
};

}  // namespace quern::policy
