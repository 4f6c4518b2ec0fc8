// The inputs of a window's calls: made ahead, and shown to both sides, call by call or all at once.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.hpp"
#include "env/core/core_task.hpp"
#include "env/runner/arena.hpp"

namespace quern::env {

/// Owns the memory that both sides of a measurement read. Where calls are shown one by one, no
/// process can read the inputs of a call before it is asked for that call: a side that looks ahead
/// would compute several calls as one. One thread.
class window_contents {
 public:
  /// `one_by_one`: one slot is shared, which each call's inputs are copied to; otherwise there is
  /// one for each call.
  static base::expected<window_contents> create(const task_instance& instance, std::int64_t calls,
                                                bool one_by_one);

  /// What the sides map and plan by; call i has slot i of it, or its only one.
  [[nodiscard]] const tensor_arena& shared() const { return shared_; }
  /// Inputs of all calls; not to be mapped by anybody where they are shown one by one.
  [[nodiscard]] const tensor_arena& all() const { return private_ ? *private_ : shared_; }

  /// Calls of one question.
  [[nodiscard]] std::int64_t calls_at_once(std::int64_t calls) const {
    return private_ ? 1 : calls;
  }
  /// Before the question for the calls from `call` on. Not timed.
  void show(std::int64_t call) const;

 private:
  window_contents(tensor_arena shared, std::size_t inputs)
      : shared_(std::move(shared)), inputs_(inputs) {}

  tensor_arena shared_;
  std::optional<tensor_arena> private_;
  std::size_t inputs_;
};

}  // namespace quern::env
