// Which compositions are the same, and which are held out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "env/grammar/composition.hpp"

namespace quern::env {

/// The normal form under these rewrites, applied until none fits: neighbouring constants fold;
/// products (scale, times) and sums (shift, plus) of a run are sorted; a scale moves behind every
/// step that is homogeneous in it (relu, sums, means, scans, stencils, ...); steps without effect
/// go (abs of something never negative, clip of something within [-1, 1], a shift before centring);
/// element-wise steps after a transposition move before it. The result computes the same up to
/// rounding, has at most as many steps per kind that is not scale or shift, and is its own
/// canonical form.
composition canonical_form(const composition& what);

/// xxh128 of the canonical form's text. Equal compositions have equal hashes.
base::hash128 composition_hash(const composition& what);

/// xxh128 of the canonical form without its constants: tasks that differ in constants only share
/// it.
base::hash128 skeleton_hash(const composition& what);

/// What must never be trained on. Constants do not count: one held-out composition holds out all
/// compositions with its skeleton, so that nothing is learnt by heart with another factor.
struct held_out_spec {
  std::uint64_t salt = 0;             ///< another salt, another split
  int per_mille = 0;                  ///< share of skeletons held out by hash, in 1/1000
  std::vector<std::string> families;  ///< families held out as a whole
  std::vector<base::hash128>
      skeletons;  ///< skeleton_hash of single compositions (a suite's held-out half)
};

bool is_held_out(const composition& what, const held_out_spec& spec);

}  // namespace quern::env
