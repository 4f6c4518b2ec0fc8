// What a generator made of a sample, as one content-addressed blob: after a crash the learner is
// fed from it, and nothing is ever tokenised again.
#pragma once

#include <string>
#include <string_view>

#include "actors/messages.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Version byte, then tokens, log-probs and text; segments are in the ledger.
std::string encode_sample(const generated_sample& sample);

/// Errors: corrupt, version. Fills prompt_tokens, tokens, log_probs, text and truncated.
base::expected<generated_sample> decode_sample(std::string_view blob);

}  // namespace quern::actors
