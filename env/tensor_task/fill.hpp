// Content of input tensors: made once by distribution and seed, then cheaply changed for every
// timed call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "env/tensor_task/distribution.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// Which random numbers: a run-wide secret seed, and small numbers that tell uses apart.
struct content_address {
  std::uint64_t seed =
      0;  ///< from the operating system in evaluations, so that a candidate cannot know it
  std::uint32_t input = 0;  ///< index of the input in the task
  std::uint32_t round = 0;  ///< which set of inputs: timed base, hidden case 0, 1, …
};

/// Content of one tensor, as many bytes as its layout says.
using tensor_bytes = std::vector<std::byte>;

/// Writes the whole of `out` (exactly layout.bytes, aligned for the type) with content of `kind`.
/// The same arguments give the same bytes, in any order of calls, on any thread and machine of one
/// build. Errors: a distribution that the type does not have, a wrong buffer size, an integer
/// layout without `below`.
base::status fill_input(const tensor_layout& layout, distribution kind, content_address where,
                        std::span<std::byte> out);

/// Fresh content for timed call `call` from base content that fill_input made with the same
/// arguments. Costs one read of `base` and one write of `out` (same size, no overlap).
/// Deterministic by (where, call), on any thread.
///
/// Nothing learnt from other calls, or from `base` itself, helps with this one. Blocks of two cache
/// lines (four of 8-byte types) each come from a place in `base` of their own, and every element is
/// changed: floating ones in their mantissa below its first bit and, unless `positive`, in their
/// sign; integers by a sum modulo `below`. Which block from where, and which changes, only
/// `where.seed` tells. Elements repeat and leave in blocks, so counts of zeros, infinities and NaN
/// are kept on average only.
///
/// The distribution keeps its meaning and range. Zeros (sparse), infinities and NaN move with their
/// blocks and do not change. `sorted`: every row is a row of `base` drawn at random, times a factor
/// near 1, plus a little; below 32 it moves along itself instead. `constant`: another constant.
/// What is left to a cheat: a sorted row or a constant is known from a few of its elements, so
/// these kinds say nothing about speed and are not meant to be timed (list them second or later);
/// sparse integers below 2 only move; one element, or a few values, change as far as they can.
base::status refresh_input(const tensor_layout& layout, distribution kind, content_address where,
                           std::uint64_t call, std::span<const std::byte> base,
                           std::span<std::byte> out);

/// All inputs of a task at these sizes, in file order, in memory of their own.
base::expected<std::vector<tensor_bytes>> make_inputs(const task_instance& at,
                                                      std::span<const distribution> kinds,
                                                      std::uint64_t seed, std::uint32_t round);

}  // namespace quern::env
