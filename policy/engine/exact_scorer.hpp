// What a generator in exact mode would have told for tokens that are there already: the learner's
// log-probs of that mode, equal to the generator's to the bit where their weights are.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/sequence.hpp"

namespace quern::policy {

/// Holds weights of its own and a cache for scorer_slots sequences. One thread; on the host with
/// one thread of LibTorch, as the generator. Bits are those of a generator with the same `rows`,
/// precision and method on a device of the same make.
class exact_scorer {
 public:
  /// `like`: an arena of the learner. `options`: the generator's, of which slots and memory are
  /// replaced.
  static base::expected<exact_scorer> make(const parameter_arena& like, std::int64_t version,
                                           const generator_options& options);
  /// Weights of the learner, at `version`, for what comes next.
  base::status take(const parameter_arena& weights, std::int64_t version);
  /// Puts exact_log_probs into every sequence; entries of tokens that are not trained stay 0.
  base::status score(std::span<training_sequence> sequences);

 private:
  exact_scorer(generator passes, std::int64_t version)
      : passes_(std::move(passes)), version_(version) {}

  generator passes_;
  std::int64_t version_;
};

}  // namespace quern::policy
