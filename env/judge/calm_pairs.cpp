// Pairs in one state of their core.
#include "env/judge/calm_pairs.hpp"

#include <cmath>

#include "env/judge/core_pace.hpp"

namespace quern::env {

bool calm_pairs::is_shared(std::span<const base::nanoseconds_t> looks) {
  constexpr std::size_t least = 2, of_so_many = 4;
  const std::size_t shared = shared_looks(looks);
  return shared >= least && of_so_many * shared > looks.size();
}

void calm_pairs::saw(bool reference_shared, bool candidate_shared) {
  using enum state;
  const state one = reference_shared ? (candidate_shared ? both : only_reference)
                                     : (candidate_shared ? only_candidate : calm);
  pairs_.push_back(one);
  ++counts_[static_cast<std::size_t>(one)];
}

calm_pairs::choice calm_pairs::chosen() const {
  const auto of_candidate = static_cast<double>(count(state::only_candidate)),
             of_reference = static_cast<double>(count(state::only_reference));
  // Twice the standard deviation of the difference, and two more for small numbers.
  const double by_chance = 2 * std::sqrt(of_candidate + of_reference) + 2;
  if (of_candidate - of_reference > by_chance) return choice::all;
  if (are_enough(state::calm)) return choice::calm;
  return are_enough(state::both) ? choice::shared : choice::all;
}

bool calm_pairs::counts(std::size_t number, choice by) const {
  if (by == choice::all || number >= pairs_.size()) return true;
  return pairs_[number] == (by == choice::calm ? state::calm : state::both);
}

}  // namespace quern::env
