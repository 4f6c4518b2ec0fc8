// How a generated kernel of lane `cpp` is written: the choices that change its speed but not its
// result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/grammar/kernel_choices.hpp"
#include "env/grammar/kernel_error.hpp"

namespace quern::env {

/// Which loop is outside.
enum class loop_order : std::uint8_t { rows, columns };

enum class reduction_plan : std::uint8_t {
  serial,  ///< one accumulator
  lanes,   ///< eight accumulators and a tail
  tree     ///< halving a row buffer
};

struct kernel_style {
  loop_order order = loop_order::rows;
  pass_plan plan = pass_plan::fused;
  math_kind math = math_kind::floats;
  reduction_plan reduction = reduction_plan::serial;
  bool hoist = false;       ///< what is constant along a row is computed once, as a factor
  bool branchless = false;  ///< (h + |h|) / 2 in place of h > 0 ? h : 0
  bool padded = false;  ///< stencils: a zero at both ends of the row buffer in place of conditions
  bool tiled = false;   ///< transposition in tiles of 16 x 16
  bool vector = false;  ///< AVX2 intrinsics
  bool unshifted = false;  ///< softmax without subtracting the maximum, where h is small
  bool folded = false;     ///< the canonical form: constants folded, steps without effect gone
  bool ivdep = false;      ///< #pragma GCC ivdep
  bool relaxed =
      false;  ///< #pragma GCC optimize: sums may be reordered, so that they become vectors
  bool restricted = false;  ///< __restrict
  friend bool operator==(const kernel_style&, const kernel_style&) = default;
};

/// One short line in fixed order, for the design section: "rows, fused, float, hoist".
std::string to_text(const kernel_style& style);

/// Every style that makes sense for a composition and gives a text of its own, in a fixed order;
/// `fast` styles only where `fast_is_safe`.
std::vector<kernel_style> styles_of(const composition& what, bool fast_is_safe);

}  // namespace quern::env
