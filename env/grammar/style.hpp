// How a generated kernel is written: the choices that change its speed but not its result, and the
// mistakes that change its result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "env/grammar/composition.hpp"

namespace quern::env {

/// Which loop is outside.
enum class loop_order : std::uint8_t { rows, columns };

enum class pass_plan : std::uint8_t {
  fused,      ///< all steps in one sweep over a row, as far as the structural step allows
  recompute,  ///< normalisations: the steps before are computed again instead of being kept
  split,  ///< the steps before and after the structural one in sweeps of their own, through a row
          ///< buffer
  passes  ///< one sweep over the whole tensor for each step
};

enum class math_kind : std::uint8_t {
  doubles,  ///< double variables, exp and tanh
  floats,   ///< float variables, expf and tanhf
  fast      ///< float variables, a polynomial in place of expf and tanhf that the compiler can
            ///< vectorise
};

enum class reduction_plan : std::uint8_t {
  serial,  ///< one accumulator
  lanes,   ///< eight accumulators and a tail
  tree     ///< halving a row buffer
};

/// Mistakes. Those up to wrong_operator are made in the composition, the others in the text.
enum class kernel_error : std::uint8_t {
  none,
  dropped_step,
  swapped_steps,
  wrong_constant,
  wrong_operator,
  missing_columns,  ///< the last m % 8 columns
  missing_rows,     ///< the last n % 4 rows: free of races, but incomplete
  unshifted,        ///< softmax without subtracting the maximum
  missing_barrier,  ///< lane cuda: threads read what others may not have written yet
  unguarded         ///< lane cuda: the last block goes on beyond the end
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

std::string_view name_of(kernel_error error);

/// One short line in fixed order, for the design section: "rows, fused, float, hoist".
std::string to_text(const kernel_style& style);

/// Every style that makes sense for a composition and gives a text of its own, in a fixed order;
/// `fast` styles only where `fast_is_safe`.
std::vector<kernel_style> styles_of(const composition& what, bool fast_is_safe);

}  // namespace quern::env
