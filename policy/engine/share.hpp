// Which part of a batch each rank computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/engine/sequence.hpp"

namespace quern::policy {

/// Indices into the batch, ascending, of what `rank` of `ranks` computes: a function of the batch
/// alone, so that every rank can tell by itself. Sequences go, the most expensive first, to whoever
/// has least; the cost of one is its tokens and a little for their square (attention), next to
/// nothing where it has no gradient.
std::vector<std::size_t> share_of(std::span<const training_sequence> batch, std::int32_t rank,
                                  std::int32_t ranks);

}  // namespace quern::policy
