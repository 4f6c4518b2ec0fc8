// The decoder with a KV cache: every pass works on a fixed number of rows, each of them one token
// of one slot at one position.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <ATen/core/Tensor.h>

#include "base/status.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/parallel.hpp"

namespace quern::policy {

/// Positions before `position` must have been computed, in this pass (an earlier or later row) or
/// before it: the first `shared` of them in `prompt_slot` (a prompt that several sequences share),
/// the others in `slot`. `shared` is a multiple of cache_block.
struct cached_row {
  std::int64_t slot = 0;
  std::int64_t position = 0;
  std::int64_t token = 0;
  std::int64_t prompt_slot = 0;
  std::int64_t shared = 0;
};

inline constexpr std::int64_t cache_block = 16;

/// Not thread-safe. A row's result depends on its slot's tokens and the weights only: not on other
/// rows, its place among them, or how the slot's positions were divided into passes.
class cached_decoder {
 public:
  /// `rows` of every pass; `slots` sequences of at most `capacity` positions. Errors: sizes,
  /// memory, parallel sizes not implemented.
  static base::expected<cached_decoder> make(const parameter_arena& arena, std::int64_t rows,
                                             std::int64_t slots, std::int64_t capacity,
                                             const parallel_context& context = {});
  cached_decoder(cached_decoder&&) noexcept;
  cached_decoder& operator=(cached_decoder&&) noexcept;
  ~cached_decoder();

  /// At most `rows` rows; the rest is padding. Logits [rows, vocab] of rows at the same places
  /// (padding undefined), valid until the next pass; only computed if `want_logits`.
  at::Tensor pass(const model_weights& weights, std::span<const cached_row> rows, bool want_logits,
                  const parallel_context& context = {});
  /// Copies positions [begin, end) of one slot to another; begin is a multiple of cache_block.
  void copy_slot(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end);

 private:
  struct state;
  explicit cached_decoder(std::unique_ptr<state> parts);
  std::unique_ptr<state> state_;
};

}  // namespace quern::policy
