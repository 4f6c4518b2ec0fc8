#include "policy/engine/exact_scorer.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "policy/engine/arena.hpp"
#include "policy/weights/memory_plan.hpp"

namespace quern::policy {
namespace {

/// As generators hold them: on the host in float32, whatever the learner rounds to.
parameter_arena as_generated_with(const parameter_arena& weights) {
  const bool widen = weights.flat.is_cpu() && weights.flat.scalar_type() == at::kBFloat16;
  parameter_arena own =
      weights.empty_as(widen ? at::kFloat : weights.flat.scalar_type(), weights.flat.device());
  own.flat.copy_(weights.flat);
  return own;
}

/// The trained tokens and what lies between them as a completion that is given.
generation_request request_for(const training_sequence& s, std::uint64_t id, std::ptrdiff_t first) {
  generation_request r;
  r.id = id;
  r.prompt.assign(s.tokens.begin(), s.tokens.begin() + first);
  r.given.assign(s.tokens.begin() + first, s.tokens.end());
  r.temperature = s.temperature;
  return r;
}

}  // namespace

base::expected<exact_scorer> exact_scorer::make(const parameter_arena& like, std::int64_t version,
                                                const generator_options& options) {
  generator_options own = options;
  own.exact = true;
  own.slots = scorer_slots;
  own.cache_bytes = 0;
  own.leave_bytes = 0;
  QUERN_TRY(generator passes, generator::make(as_generated_with(like), version, own));
  return exact_scorer(std::move(passes), version);
}

base::status exact_scorer::take(const parameter_arena& weights, std::int64_t version) {
  if (version == version_) return {};
  passes_.landing().flat.copy_(weights.flat);
  const base::hash128 hash = passes_.landing().hash();
  QUERN_CHECK(passes_.announce(version, hash, /*rollback=*/true));
  QUERN_CHECK(passes_.commit(hash));
  version_ = version;
  return {};
}

base::status exact_scorer::score(std::span<training_sequence> sequences) {
  std::vector<generation_request> requests;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    training_sequence& s = sequences[i];
    s.exact_log_probs.assign(s.tokens.size(), 0.0F);
    const auto first = std::find(s.loss_mask.begin(), s.loss_mask.end(), std::uint8_t{1});
    if (first != s.loss_mask.end())
      requests.push_back(request_for(s, i, std::distance(s.loss_mask.begin(), first)));
  }
  QUERN_CHECK(passes_.submit(requests));
  for (const generation_result& result : passes_.run()) {
    training_sequence& s = sequences[static_cast<std::size_t>(result.id)];
    const std::size_t first = s.tokens.size() - result.log_probs.size();
    for (std::size_t i = 0; i < result.log_probs.size(); ++i)
      if (s.loss_mask[first + i] != 0) s.exact_log_probs[first + i] = result.log_probs[i];
  }
  return {};
}

}  // namespace quern::policy
