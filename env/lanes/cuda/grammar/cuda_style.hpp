// How a generated CUDA kernel is written: the choices that change its speed but not its result.
// What lane `cpp` has in env/lanes/cpp/grammar/style.hpp.
#pragma once

#include <string>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/grammar/kernel_choices.hpp"

namespace quern::env {

/// What one thread, warp or block of the grid works on.
enum class cuda_share : std::uint8_t {
  element,  ///< a thread an element, neighbours in memory beside each other
  column,   ///< a thread an element, neighbours along a column: far apart in memory
  stride,   ///< as many threads as the device holds, each going through the tensor
  thread,   ///< a thread a row
  warp,     ///< a warp a row
  block     ///< a block a row
};

/// Where a row is between two sweeps over it.
enum class cuda_keep : std::uint8_t {
  again,  ///< computed again from x
  out,    ///< in y
  shared  ///< in dynamic shared memory
};

struct cuda_style {
  cuda_share share = cuda_share::element;
  pass_plan plan = pass_plan::fused;  ///< recompute is not used here: see keep
  cuda_keep keep = cuda_keep::again;
  math_kind math = math_kind::floats;  ///< fast: the device's intrinsics
  int block = 256;                     ///< threads of a block
  bool tree = false;        ///< sums of a block: halving in shared memory; else warps by shuffles
  bool vector = false;      ///< four floats a load and store, with tails
  bool unrolled = false;    ///< elements: four a thread; rows: loops of four turns
  bool tiled = false;       ///< transposition through tiles of 32 x 32 in shared memory
  bool padded = false;      ///< tiles of 32 x 33: no two threads of a warp in one bank
  bool hoist = false;       ///< what is constant along a row is computed once, as a factor
  bool branchless = false;  ///< fmaxf in place of h > 0 ? h : 0
  bool unshifted = false;   ///< softmax without subtracting the maximum, where h is small
  bool folded = false;      ///< the canonical form
  bool restricted = false;  ///< __restrict__
  bool readonly = false;    ///< __ldg
  friend bool operator==(const cuda_style&, const cuda_style&) = default;
};

/// One short line in fixed order, for the design section: "warp fused out fast 256 vector hoist".
std::string to_text(const cuda_style& style);

/// Every style that makes sense for a composition and gives a text of its own, in a fixed order;
/// `fast` styles only where `fast_is_safe`.
std::vector<cuda_style> cuda_styles_of(const composition& what, bool fast_is_safe);

}  // namespace quern::env
