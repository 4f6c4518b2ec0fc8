// Content of input tensors: made once by distribution and seed, then cheaply changed for every
// timed call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "env/task/distribution.hpp"
#include "env/task/task.hpp"

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
/// arguments: every element changes (except zeros, infinities and NaN, which move instead), the
/// distribution keeps its meaning, and nothing of call k helps with call k + 1. Costs one read of
/// `base` and one write of `out` (same size, no overlap). Deterministic by (where, call). A tensor
/// of one element, or of integers below 2, changes as far as it can.
base::status refresh_input(const tensor_layout& layout, distribution kind, content_address where,
                           std::uint64_t call, std::span<const std::byte> base,
                           std::span<std::byte> out);

/// All inputs of a task at these sizes, in file order, in memory of their own.
base::expected<std::vector<tensor_bytes>> make_inputs(const task_instance& at,
                                                      std::span<const distribution> kinds,
                                                      std::uint64_t seed, std::uint32_t round);

}  // namespace quern::env
