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

/// Positions before `position` of this slot must have been computed, in this pass (an earlier or
/// later row) or before it.
struct cached_row {
  std::int64_t slot = 0;
  std::int64_t position = 0;
  std::int64_t token = 0;
};

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
  /// Copies the first `positions` of one slot's cache to another.
  void copy_slot(std::int64_t from, std::int64_t to, std::int64_t positions);

 private:
  struct state;
  explicit cached_decoder(std::unique_ptr<state> parts);
  std::unique_ptr<state> state_;
};

}  // namespace quern::policy
