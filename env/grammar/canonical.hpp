// Which compositions are the same, and which are held out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "env/grammar/composition.hpp"

namespace quern::env {

/// The normal form under these rewrites of neighbours, applied until none fits:
///  - constants fold, `negate` is `scale -1`, a scale of 1 and a shift of 0 go;
///  - runs of products (scale, times_...) and of sums (shift, plus_...) are sorted, scale and shift
///    last; a shift before a scale is written behind it;
///  - a scale moves behind whatever is homogeneous in it (relu, abs, square, sums, means, centre,
///    scans, stencils), a shift behind means and maxima; before centre, layer_norm and softmax a
///    shift goes;
///  - a sign or abs before an even function goes, a negation moves behind an odd one;
///  - relu, abs and clip go where the range of their argument shows that they change nothing;
///  - relu moves before odd increasing functions, increasing functions move behind maxima along
///    the row, element-wise steps move before a transposition.
/// The result computes the same up to rounding, has at most as many steps, and is its own
/// canonical form. Equal functions with different canonical forms remain: this is not a prover.
composition canonical_form(const composition& what);

/// xxh128 of the canonical form's text. Compositions with one canonical form share it.
base::hash128 composition_hash(const composition& what);

/// xxh128 of the canonical form without its constants: tasks that differ in constants only share
/// it.
base::hash128 skeleton_hash(const composition& what);

/// What must never be trained on. Constants do not count: one held-out composition holds out all
/// compositions with its skeleton, so that nothing is learnt by heart with another factor.
struct held_out_spec {
  std::uint64_t salt = 0;                ///< another salt, another split
  int per_mille = 0;                     ///< share of skeletons held out by hash, in 1/1000
  std::vector<std::string> families;     ///< families held out as a whole
  std::vector<base::hash128> skeletons;  ///< of single compositions (a suite's held-out half)
};

bool is_held_out(const composition& what, const held_out_spec& spec);

}  // namespace quern::env
